use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::fleet::{Snapshot, samples};

use super::*;

fn snapshot() -> Snapshot {
    Snapshot {
        version: "1.2".into(),
        disruptions: BTreeMap::from([("a \"b\"\n\\".to_owned(), 3)]),
        daemon_up: Some(false),
        ..Snapshot::default()
    }
}

#[test]
fn counters_and_labels_are_openmetrics() {
    let help =
        |name: &str| crate::fleet::METRICS.iter().find(|metric| metric.name == name).unwrap().help;
    assert_eq!(
        openmetrics(samples(&snapshot())),
        format!(
            "# HELP parachron_build_info {}\n\
             # TYPE parachron_build_info gauge\n\
             parachron_build_info{{version=\"1.2\"}} 1.0\n\
             # HELP parachron_daemon_up {}\n\
             # TYPE parachron_daemon_up gauge\n\
             parachron_daemon_up 0.0\n\
             # HELP parachron_disruptions {}\n\
             # TYPE parachron_disruptions counter\n\
             parachron_disruptions_total{{kind=\"a \\\"b\\\"\\n\\\\\"}} 3.0\n\
             # EOF\n",
            help("parachron_build_info"),
            help("parachron_daemon_up"),
            help("parachron_disruptions_total"),
        )
    );
    let text = textfile(samples(&snapshot()));
    assert!(text.contains("\n# TYPE parachron_disruptions_total counter\n"), "{text}");
    assert!(!text.contains("EOF"));
}

/// One sample of each metric.
fn all() -> Vec<MetricSample> {
    let sample = |metric: &'static crate::fleet::Metric| MetricSample {
        metric,
        labels: metric.labels.iter().map(|label| format!("a \"{label}\"\n\\")).collect(),
        value: 1.5e-9,
    };
    crate::fleet::METRICS.iter().map(sample).collect()
}

/// A program's verdict on a text; none where the program is missing, which is reported.
fn verdict(program: &str, arguments: &[&str], text: &str, reason: &str) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        // Not by eprintln: a test that passes shows none of it.
        writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
        return None;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text.into_owned()))
}

/// Prometheus' own checker: names, units, help texts, types, and the format.
#[test]
fn promtool_has_nothing_to_say_about_the_metrics() {
    let reason = "promtool is not on PATH (Debian: apt install prometheus)";
    let check = |text: &str| verdict("promtool", &["check", "metrics"], text, reason);
    let Some((passed, text)) = check(&textfile(all())) else { return };
    assert!(passed && text.trim().is_empty(), "{text}");
    let (passed, _) = check("parachron_a_total{x=\"1\" 1\n").unwrap();
    assert!(!passed, "a damaged text passes");
}

/// The strict parser of the reference implementation of OpenMetrics.
#[test]
fn the_reference_parser_reads_each_metric() {
    const PARSE: &str = "\
import sys
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    sys.exit(3)
families = list(text_string_to_metric_families(sys.stdin.read()))
for family in families:
    print(family.name, family.type, len(family.samples), bool(family.documentation))
";
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let reason = "python3 is not on PATH";
    let parse = |text: &str| verdict(&python, &["-c", PARSE], text, reason);
    let Some((passed, text)) = parse(&openmetrics(all())) else { return };
    if !passed && text.is_empty() {
        let reason = "python3 has no module prometheus_client (pip install prometheus-client)";
        return writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
    }
    assert!(passed, "{text}");
    let expected: Vec<String> = all()
        .iter()
        .map(|sample| match sample.metric.kind {
            Kind::Gauge => format!("{} gauge 1 True", sample.metric.name),
            Kind::Counter => format!("{} counter 1 True", family(sample.metric.name)),
        })
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    // Without its end marker a text may be cut off.
    let (passed, _) = parse(openmetrics(all()).trim_end_matches("# EOF\n")).unwrap();
    assert!(!passed, "a text without its end passes");
}
