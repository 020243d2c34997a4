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
    /// After so long.
    pub lasts: &'static str,
    /// critical, warning or info.
    pub severity: &'static str,
    /// What it says.
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

/// Where each alert has its part.
const RUNBOOK: &str = "docs/guide/fleet.md";

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
        "The clock is off by {{ $value | humanizeDuration }} at the least",
        "parachron status: which sources agree, and why it is not corrected",
    ),
    alert(
        "ParachronClockMarginGone",
        "parachron_clock_margin_seconds < 0 and on (job, instance, consumer) \
         parachron_clock_consumer_here == 1 and on (job, instance) \
         max_over_time(parachron_clock_offset_bound_seconds[1h])",
        "2m",
        "critical",
        "The clock may be further off than {{ $labels.consumer }} allows",
        "parachron status: more or nearer sources, a host source; then parachron doctor",
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
        "For half an hour the kernel's error was more than {{ $labels.consumer }} allows",
        "ntpq -p, or what else steers the clock: does it run, and has it servers",
    ),
    alert(
        "ParachronClockUnsynchronised",
        "max_over_time(parachron_clock_synchronised[5m]) == 0",
        "5m",
        "warning",
        "Nobody vouches for the clock",
        "parachron status: which source is unreachable, and why",
    ),
    alert(
        "ParachronClockHoldover",
        "min_over_time(parachron_clock_holdover[15m]) == 1",
        "45m",
        "warning",
        "The clock has gone by what was learnt alone for an hour",
        "parachron status: which source is unreachable, and why",
    ),
    alert(
        "ParachronClockUnmeasured",
        "min_over_time(parachron_clock_measured_age_seconds[5m]) > 3600",
        "0m",
        "warning",
        "The clock was measured {{ $value | humanizeDuration }} ago",
        "parachron status, chronyc sources: which source is unreachable, and why",
    ),
    alert(
        "ParachronFalseticker",
        "min_over_time(parachron_source_state{state=\"falseticker\"}[5m]) == 1",
        "10m",
        "warning",
        "{{ $labels.source }} contradicts the other sources",
        "leave it out, or mend it",
    ),
    alert(
        "ParachronCorrectionNotMade",
        "increase(parachron_corrections_not_made_total[10m]) > 0",
        "0m",
        "warning",
        "A correction of the clock was {{ $labels.why }}",
        "journalctl -u parachrond: the reason and the sizes are there",
    ),
    alert(
        "ParachronStepsRepeated",
        "increase(parachron_corrections_total{how=~\"step|makestep\"}[1h]) > 3",
        "0m",
        "warning",
        "The clock was stepped {{ $value | humanize }} times within an hour",
        "parachron watch: what disrupts it so often",
    ),
    alert(
        "ParachronDisrupted",
        // Not by the counter: who scrapes was away with the machine, and sees no increase.
        "parachron_disruption_age_seconds{kind=~\"pause|suspend|\
         .*snapshot-restored.*|.*migrated.*|.*counter-disrupted|pause.*rtc-set\"} < 900",
        "0m",
        "info",
        "The machine was disrupted: {{ $labels.kind }}",
        "nothing, if the clock is right again: see its error bound",
    ),
    alert(
        "ParachronSlowClock",
        "min_over_time(parachron_clock_read_seconds[5m]) > 5e-07",
        "10m",
        "warning",
        "Reading the clock takes {{ $value | humanize }} s",
        "parachron doctor",
    ),
    alert(
        "ParachronSteal",
        "rate(parachron_steal_seconds_total[15m]) / parachron_cpus > 0.1",
        "5m",
        "warning",
        "The host gave {{ $value | humanizePercentage }} of the CPUs to others",
        "a less crowded host, or a larger share of it",
    ),
    alert(
        "ParachronFinding",
        "min_over_time(parachron_finding{severity=\"error\"}[5m]) == 1",
        "10m",
        "warning",
        "doctor finds {{ $labels.rule }}",
        "parachron doctor",
    ),
    alert(
        "ParachronDaemonGone",
        "max_over_time(parachron_daemon_up[3m]) == 0",
        "3m",
        "warning",
        "parachrond does not reply",
        "systemctl status parachrond",
    ),
    alert(
        "ParachronNotScraped",
        // A daemon that serves its metrics is missed by this alone.
        "up{job=~\"parachron.*\"} == 0",
        "20m",
        "warning",
        "Its metrics have not been scraped for 20 minutes",
        "systemctl status parachrond, or the exporter; then the machine and its network",
    ),
];

/// The file of rules for Prometheus.
pub fn rules() -> String {
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
        let anchor = alert.name.to_lowercase();
        let _ = writeln!(file, "          runbook_url: {}", quoted(&format!("{RUNBOOK}#{anchor}")));
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
    fn quotes_are_escaped() {
        assert!(rules().contains(r#"{severity=\"error\"}[5m]) == 1""#));
    }
}
