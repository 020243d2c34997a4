//! Alert and recording rules, as Prometheus reads them.

use std::fmt::Write as _;

/// An alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alert {
    /// Its name.
    pub name: &'static str,
    /// When it fires, in PromQL.
    pub when: &'static str,
    /// How long it has to hold.
    pub lasts: &'static str,
    /// critical, warning or info.
    pub severity: &'static str,
    /// What happened.
    pub summary: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// A recorded series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Its name.
    pub name: &'static str,
    /// What it is, in PromQL.
    pub is: &'static str,
}

/// The recorded series.
pub const RECORDED: &[Recorded] = &[
    Recorded {
        name: "instance:parachron_clock_off_seconds:least",
        is: "clamp_min(abs(parachron_clock_offset_seconds) \
             - parachron_clock_offset_bound_seconds, 0)",
    },
    Recorded {
        name: "job:parachron_clock_error_bound_seconds:max",
        is: "max by (job) (parachron_clock_error_bound_seconds)",
    },
];

const fn alert(
    name: &'static str,
    when: &'static str,
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    remedy: &'static str,
) -> Alert {
    Alert { name, when, lasts, severity, summary, remedy }
}

/// The alerts. One scrape in some hundreds fails, and ends what is pending with it, as its
/// series are gone until the next: what has to last is asked over minutes.
pub const ALERTS: &[Alert] = &[
    alert(
        "ParachronClockOff",
        "instance:parachron_clock_off_seconds:least > 0.05",
        "1m",
        "critical",
        "The clock is off by at least {{ $value | humanizeDuration }}",
        "Run parachron status: it shows which sources agree, and why the clock is not corrected.",
    ),
    alert(
        "ParachronClockMarginGone",
        "parachron_clock_margin_seconds < 0 and on (job, instance, consumer) \
         parachron_clock_consumer_here == 1 and on (job, instance) \
         max_over_time(parachron_clock_offset_bound_seconds[1h])",
        "2m",
        "critical",
        "The clock may be further off than {{ $labels.consumer }} allows",
        "Run parachron status, then parachron doctor. Add nearer servers, or the host's clock as a source.",
    ),
    alert(
        "ParachronKernelMarginGone",
        // Where nobody but the kernel states a bound: it adds 500 ppm (MAXFREQ,
        // kernel/time/ntp.c), so half a second from one poll of ntpd to the next, 1024 s.
        "max_over_time(parachron_clock_margin_seconds[20m]) < 0 \
         and on (job, instance, consumer) \
         max_over_time(parachron_clock_consumer_here[5m]) == 1 unless on (job, instance) \
         max_over_time(parachron_clock_offset_bound_seconds[1h])",
        "10m",
        "warning",
        "For half an hour the kernel's error bound exceeded what {{ $labels.consumer }} allows",
        "Run systemctl status for the time daemon, then chronyc sources or ntpq -p: they show whether it runs and reaches its servers.",
    ),
    alert(
        "ParachronClockUnsynchronised",
        "max_over_time(parachron_clock_synchronised[5m]) == 0",
        "5m",
        "warning",
        "The clock is not synchronised",
        "Run parachron status: it shows which source is unreachable, and why.",
    ),
    alert(
        "ParachronClockHoldover",
        "min_over_time(parachron_clock_holdover[15m]) == 1",
        "45m",
        "warning",
        "For an hour no source has confirmed the clock: it runs on its learnt frequency",
        "Run parachron status: it shows which source is unreachable, and why.",
    ),
    alert(
        "ParachronClockUnmeasured",
        "min_over_time(parachron_clock_measured_age_seconds[5m]) > 3600",
        "0m",
        "warning",
        "The clock was last measured {{ $value | humanizeDuration }} ago",
        "Run parachron status, chronyc sources or ntpq -p to see which source is unreachable.",
    ),
    alert(
        "ParachronFalseticker",
        "min_over_time(parachron_source_state{state=\"falseticker\"}[5m]) == 1",
        "10m",
        "warning",
        "{{ $labels.source }} contradicts the other sources",
        "Fix the source, or remove it from parachrond.toml; parachron status shows its offset.",
    ),
    alert(
        "ParachronCorrectionNotMade",
        "increase(parachron_corrections_not_made_total[10m]) > 0",
        "0m",
        "warning",
        "Clock correction {{ $labels.why }}",
        "Run journalctl -u parachrond: it shows the size and the reason.",
    ),
    alert(
        "ParachronStepsRepeated",
        "increase(parachron_corrections_total{how=~\"step|makestep\"}[1h]) > 3",
        "0m",
        "warning",
        "The clock was stepped {{ $value | humanize }} times within an hour",
        "Run parachron watch to see what disrupts the machine.",
    ),
    alert(
        "ParachronDisrupted",
        // Not by the counter: an exporter that was away with its machine shows no increase.
        // A kind may be joined to others with `|`: Xen's pause is `pause|long-steal`.
        "parachron_disruption_age_seconds{kind=~\"pause.*|suspend.*|.*snapshot-restored.*|\
         .*migrated.*|.*counter-disrupted|host-stepped\"} < 900",
        "0m",
        "info",
        "The machine was disrupted: {{ $labels.kind }}",
        "Check parachron_clock_error_bound_seconds: if it is small again, no action is needed.",
    ),
    alert(
        "ParachronSlowClock",
        "min_over_time(parachron_clock_read_seconds[5m]) > 5e-07",
        "10m",
        "warning",
        "Reading the clock takes {{ $value | humanize }}s",
        "Run parachron doctor: it names the cause and the remedy.",
    ),
    alert(
        "ParachronSteal",
        "rate(parachron_steal_seconds_total[15m]) / parachron_cpus > 0.1",
        "5m",
        "warning",
        "The host gave {{ $value | humanizePercentage }} of the CPU time to other guests",
        "Move the guest to a less crowded host, or raise its share there (cpu.weight, libvirt's cputune shares).",
    ),
    alert(
        "ParachronFinding",
        "min_over_time(parachron_finding{severity=\"error\"}[5m]) == 1",
        "10m",
        "warning",
        "parachron doctor reports {{ $labels.rule }}",
        "Run parachron doctor on that machine: it names the remedy.",
    ),
    alert(
        "ParachronDaemonGone",
        "max_over_time(parachron_daemon_up[3m]) == 0",
        "3m",
        "warning",
        "parachrond does not reply",
        "Run systemctl status parachrond, then journalctl -u parachrond.",
    ),
    alert(
        "ParachronNotScraped",
        // A daemon that serves its metrics is missed by this alone.
        "up{job=~\"parachron.*\"} == 0",
        "20m",
        "warning",
        "{{ $labels.instance }} has not been scraped for 20 minutes",
        "Run systemctl status parachrond there; else check the exporter, the machine and its network.",
    ),
];

/// The file of rules for Prometheus. Where each alert has a heading of its name below the URL
/// of a runbook, as in docs/guide/fleet.md, `runbooks` is that URL.
pub fn rules(runbooks: Option<&str>) -> String {
    let mut file = String::from("groups:\n  - name: parachron\n    rules:\n");
    // Text in double quotes is JSON's, which YAML reads.
    for recorded in RECORDED {
        let _ = writeln!(file, "      - record: {}", recorded.name);
        let _ = writeln!(file, "        expr: {}", quoted(recorded.is));
    }
    for alert in ALERTS {
        let _ = writeln!(file, "      - alert: {}", alert.name);
        let _ = writeln!(file, "        expr: {}", quoted(alert.when));
        if alert.lasts != "0m" {
            let _ = writeln!(file, "        for: {}", alert.lasts);
        }
        let _ = writeln!(file, "        labels:\n          severity: {}", alert.severity);
        let _ = writeln!(file, "        annotations:");
        let _ = writeln!(file, "          summary: {}", quoted(alert.summary));
        let _ = writeln!(file, "          description: {}", quoted(alert.remedy));
        if let Some(url) = runbooks {
            let url = format!("{url}#{}", alert.name.to_lowercase());
            let _ = writeln!(file, "          runbook_url: {}", quoted(&url));
        }
    }
    file
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::METRICS;

    /// The names of series in an expression.
    fn series(expression: &str) -> impl Iterator<Item = &str> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        expression.split(move |c| !is_name(c)).filter(|word| word.contains("parachron_"))
    }

    #[test]
    fn rules_name_what_there_is() {
        let is_there = |name: &str| {
            METRICS.iter().any(|metric| metric.name == name)
                || RECORDED.iter().any(|recorded| recorded.name == name)
        };
        let expressions = ALERTS.iter().map(|alert| alert.when);
        for expression in expressions.chain(RECORDED.iter().map(|recorded| recorded.is)) {
            // Prometheus itself has `up`.
            let is_known = series(expression).count() > 0 || expression.starts_with("up{");
            assert!(is_known, "{expression}");
            assert_eq!(series(expression).find(|name| !is_there(name)), None, "{expression}");
        }
    }

    #[test]
    fn a_runbook_is_at_the_url_of_the_user_or_nowhere() {
        assert!(!rules(None).contains("runbook_url"));
        let rules = rules(Some("https://wiki.example/clocks"));
        let url = "runbook_url: \"https://wiki.example/clocks#parachronclockoff\"\n";
        assert!(rules.contains(url), "{rules}");
        assert_eq!(rules.matches("runbook_url").count(), ALERTS.len());
    }

    #[test]
    fn quotes_are_escaped() {
        assert!(rules(None).contains(r#"{severity=\"error\"}[5m]) == 1""#));
    }
}
