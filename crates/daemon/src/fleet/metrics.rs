//! The tables of metrics, from which the exposition, the rules and the guide follow.

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, with its unit, and `_total` for a counter.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels: each has a bounded set of values on a machine.
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value now.
    Gauge,
    /// A sum that only grows.
    Counter,
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

/// All of them.
pub static METRICS: &[Metric] = &[
    gauge("parachron_build_info", &["version"], "The exporter's version; always 1"),
    gauge("parachron_daemon_up", &[], "1 if parachrond replies"),
    gauge("parachron_dry_run", &[], "1 if the daemon only reports the corrections it would make"),
    gauge(
        "parachron_clock_synchronised",
        &[],
        "1 if the clock is synchronised to a trusted source",
    ),
    gauge("parachron_clock_holdover", &[], "1 if the clock runs on its learnt frequency alone"),
    gauge(
        "parachron_clock_offset_seconds",
        &[],
        "Measured offset, to be added to the clock: positive if it is behind",
    ),
    gauge(
        "parachron_clock_offset_bound_seconds",
        &[],
        "Upper bound on the error of the measured offset",
    ),
    gauge("parachron_clock_error_bound_seconds", &[], "Upper bound on the error of the clock"),
    gauge(
        "parachron_clock_measured_age_seconds",
        &[],
        "Time since the clock was measured against the selected source",
    ),
    gauge(
        "parachron_clock_margin_seconds",
        &["consumer"],
        "The consumer's limit minus the clock's error bound",
    ),
    gauge(
        "parachron_clock_consumer_here",
        &["consumer"],
        "1 for each consumer that runs on this machine, named by --consumer",
    ),
    gauge(
        "parachron_kernel_synchronised",
        &[],
        "0 if the kernel reports an unsynchronised clock (adjtimex), else 1",
    ),
    gauge("parachron_kernel_max_error_seconds", &[], "The kernel's maxerror (adjtimex)"),
    gauge(
        "parachron_clock_frequency_correction_ratio",
        &[],
        "Frequency correction that the kernel applies: 1 ppm is 1e-6",
    ),
    gauge(
        "parachron_source_state",
        &["source", "state"],
        "1 on the series of the source's current state; its other states have none",
    ),
    gauge("parachron_source_offset_seconds", &["source"], "The source's offset from the clock"),
    gauge(
        "parachron_source_offset_bound_seconds",
        &["source"],
        "Upper bound on the error of the source's offset",
    ),
    gauge("parachron_source_age_seconds", &["source"], "Time since the source was measured"),
    counter(
        "parachron_disruptions_total",
        &["kind"],
        "Disruptions of the clock, by kind; one of uncertain kind counts for each possible kind",
    ),
    gauge(
        "parachron_disruption_age_seconds",
        &["kind"],
        "Time since the last disruption of the kind was reported",
    ),
    counter("parachron_corrections_total", &["how"], "Corrections of the clock, by method"),
    counter(
        "parachron_corrections_not_made_total",
        &["why"],
        "Corrections that were refused or failed",
    ),
    gauge("parachron_clocksource_info", &["name"], "The kernel's clock source; always 1"),
    gauge("parachron_clock_read_seconds", &[], "Least time that reading CLOCK_REALTIME takes"),
    counter("parachron_steal_seconds_total", &[], "CPU time that the host gave to other guests"),
    gauge("parachron_cpus", &[], "Number of CPUs"),
    gauge("parachron_finding", &["rule", "severity"], "1 for each finding of parachron doctor"),
];

/// The metric of this name, which is in the table.
pub(crate) fn named(name: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.name == name).unwrap_or(&METRICS[0])
}
