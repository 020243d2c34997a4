//! `packaging/alerts.yml`: its metrics exist, the guide explains its alerts, and Prometheus' own
//! promtool finds what they find on traces.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use daemon::fleet::METRICS;

const RULES: &str = include_str!("../../../../packaging/alerts.yml");

/// The values of a key in the file of rules.
fn values(key: &str) -> impl Iterator<Item = &str> {
    RULES.lines().filter_map(move |line| line.trim_start().strip_prefix(key))
}

/// The names of the recorded series.
pub(crate) fn recorded() -> impl Iterator<Item = &'static str> {
    values("- record: ")
}

/// The words of a text that look like metrics of ours.
pub(crate) fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(move |c| !is_name(c)).filter(|word| word.contains("parachron_"))
}

#[test]
fn rules_name_what_there_is() {
    let exists = |name: &str| {
        METRICS.iter().any(|metric| metric.name == name)
            || recorded().any(|recorded| recorded == name)
    };
    for expression in values("expr: ") {
        // Prometheus itself has `up`.
        let is_known = metrics(expression).count() > 0 || expression.starts_with("'up{");
        assert!(is_known, "{expression}");
        assert_eq!(metrics(expression).find(|name| !exists(name)), None, "{expression}");
    }
}

#[test]
fn the_guide_explains_each_alert() {
    let guide = include_str!("../../../../docs/guide/fleet.md");
    let alerts: Vec<&str> = values("- alert: ").collect();
    assert!(alerts.len() >= 15, "{alerts:?}");
    for alert in alerts {
        // The dashboard shows the alerts with this prefix.
        assert!(alert.starts_with("Parachron"), "{alert}");
        assert!(guide.contains(&format!("\n### {alert}\n")), "{alert}");
    }
}

#[test]
fn promtool_finds_each_fault_and_nothing_in_calm() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = here.join("../../packaging/alerts.yml");
    let traces = here.join("tests/program/alerts.yml");
    for (command, file) in [("check", rules), ("test", traces)] {
        let ran = Command::new("promtool").args([command, "rules"]).arg(&file).output();
        let Ok(output) = ran else {
            // A fresh machine has none; .ci/run installs it.
            let said = "skipped: no promtool (Debian's package prometheus)";
            // Not by eprintln: a test that passes shows none of it.
            return writeln!(std::io::stderr(), "{said}").unwrap();
        };
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command} {}: {said}", file.display());
    }
}
