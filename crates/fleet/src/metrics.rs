//! The metrics, once: the exposition, the rules and the guide are made of this.

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
    /// What it says.
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
    gauge("parachron_build_info", &["version"], "The exporter, 1"),
    gauge("parachron_daemon_up", &[], "1 where parachrond replies"),
    gauge("parachron_clock_synchronised", &[], "1 where somebody vouches for the clock now"),
    gauge("parachron_clock_holdover", &[], "1 where the clock goes by what was learnt alone"),
    gauge(
        "parachron_clock_offset_seconds",
        &[],
        "Measured offset of the clock: positive where it is behind",
    ),
    gauge("parachron_clock_offset_bound_seconds", &[], "The offset's error is at most this"),
    gauge("parachron_clock_error_bound_seconds", &[], "The clock is off by at most this"),
    gauge(
        "parachron_clock_measured_age_seconds",
        &[],
        "How long ago the clock was measured against the selected source",
    ),
    gauge(
        "parachron_clock_margin_seconds",
        &["consumer"],
        "What the consumer's limit leaves beyond the clock's error bound",
    ),
    gauge(
        "parachron_clock_consumer_here",
        &["consumer"],
        "1 for a consumer that runs here, by --consumer",
    ),
    gauge(
        "parachron_kernel_synchronised",
        &[],
        "1 unless the kernel says that nobody synchronises the clock (adjtimex)",
    ),
    gauge("parachron_kernel_max_error_seconds", &[], "The kernel's maxerror (adjtimex)"),
    gauge(
        "parachron_clock_frequency_correction_ratio",
        &[],
        "By how much the kernel corrects the clock's frequency: 1 ppm is 1e-6",
    ),
    gauge("parachron_source_state", &["source", "state"], "1 for the state that the source is in"),
    gauge("parachron_source_offset_seconds", &["source"], "The source's offset from the clock"),
    gauge("parachron_source_offset_bound_seconds", &["source"], "Its error is at most this"),
    gauge("parachron_source_age_seconds", &["source"], "How long ago it was measured"),
    counter("parachron_disruptions_total", &["kind"], "What happened to the clock, by kind"),
    gauge(
        "parachron_disruption_age_seconds",
        &["kind"],
        "How long ago the last disruption of the kind was reported",
    ),
    counter("parachron_corrections_total", &["how"], "Corrections of the clock"),
    counter(
        "parachron_corrections_not_made_total",
        &["why"],
        "Corrections that were refused, or failed",
    ),
    gauge("parachron_clocksource_info", &["name"], "The kernel's clock source, 1"),
    gauge("parachron_clock_read_seconds", &[], "What reading CLOCK_REALTIME takes, at the least"),
    counter("parachron_steal_seconds_total", &[], "CPU time that the host gave to others"),
    gauge("parachron_cpus", &[], "CPUs"),
    gauge("parachron_finding", &["rule", "severity"], "1 for each finding of doctor"),
];

/// What `parachron pair --textfile` writes of a node's peers.
pub static PAIR_METRICS: &[Metric] = &[
    gauge(
        "parachron_pair_ahead_min_seconds",
        &["node", "peer"],
        "Least amount by which the peer's clock is ahead of the node's",
    ),
    gauge(
        "parachron_pair_ahead_max_seconds",
        &["node", "peer"],
        "Greatest amount by which the peer's clock is ahead of the node's",
    ),
    gauge(
        "parachron_pair_measured_timestamp_seconds",
        &["node", "peer"],
        "When the pair was last compared, by the node's clock",
    ),
    counter("parachron_pair_probes_total", &["result"], "Probes of peers, by result"),
    counter("parachron_pair_requests_total", &["result"], "Requests of peers, by result"),
];

/// The metric of this name, which is in one of the tables.
pub(crate) fn named(name: &str) -> &'static Metric {
    let mut all = METRICS.iter().chain(PAIR_METRICS);
    all.find(|metric| metric.name == name).unwrap_or(&METRICS[0])
}
