//! A sample of the traces, evaluated by Prometheus' own promtool: it is to find the same
//! alerts firing, at the same minutes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use crate::faults::FAULTS;
use crate::installation::INSTALLATIONS;
use crate::rules::{Alerts, RULES};
use crate::run::{EACH_MS, Witness, run};
use crate::series::Labels;

/// Slots of a series in the file: a scrape is in each third.
const SLOT_MS: i64 = EACH_MS / 3;

/// How long before the fault a trace begins, and how long it is, ms.
const BEFORE_MS: i64 = 10 * 60_000;
const LENGTH_MS: i64 = 200 * 60_000;

type Key = (&'static str, Labels);

/// Each scrape's samples, with its time since the trace began.
#[derive(Default)]
struct Trace {
    from_ms: i64,
    scrapes: Vec<(i64, BTreeMap<Key, f64>)>,
}

impl Witness for Trace {
    fn scraped(&mut self, at_ms: i64, alerts: &Alerts) {
        let since_ms = at_ms - self.from_ms;
        if (0..LENGTH_MS).contains(&since_ms) {
            let database = &alerts.evaluator.database;
            let now = |series: &crate::series::Series| {
                let value = series.between(at_ms, at_ms).next()?.1;
                Some(((series.name, database.labels(series.labels).clone()), value))
            };
            self.scrapes.push((since_ms, database.series.iter().filter_map(now).collect()));
        }
    }
}

impl Trace {
    /// What fires after each evaluation, by our evaluator.
    fn firing(&self) -> Vec<(i64, BTreeMap<&'static str, usize>)> {
        let mut alerts = Alerts::new();
        let mut all = Vec::new();
        let mut scrapes = self.scrapes.iter().peekable();
        for at_ms in (0..LENGTH_MS).step_by(EACH_MS as usize) {
            while let Some((scraped_ms, samples)) = scrapes.next_if(|(ms, _)| *ms <= at_ms) {
                let database = &mut alerts.evaluator.database;
                database.begin();
                for ((name, labels), value) in samples {
                    let labels: Vec<_> = labels.iter().map(|(a, b)| (&**a, &**b)).collect();
                    database.add(*scraped_ms, name, &labels, *value);
                }
                database.end(*scraped_ms);
            }
            alerts.evaluate(at_ms, |_| ());
            all.push((at_ms, alerts.firing().filter(|(_, count)| *count > 0).collect()));
        }
        all
    }

    /// As a test of promtool's; how many states it asks for.
    fn write(&self, name: &str, into: &mut String) -> usize {
        let _ = writeln!(into, "  - name: '{name}'\n    interval: 20s\n    input_series:");
        let keys: std::collections::BTreeSet<&Key> =
            self.scrapes.iter().flat_map(|(_, samples)| samples.keys()).collect();
        for key in keys {
            let mut slots = vec!["_".to_owned(); (LENGTH_MS / SLOT_MS) as usize];
            let mut was_there = false;
            for (at_ms, samples) in &self.scrapes {
                let value = samples.get(key);
                let slot = &mut slots[(at_ms / SLOT_MS) as usize];
                if let Some(value) = value {
                    *slot = value.to_string();
                } else if was_there {
                    *slot = "stale".to_owned();
                }
                was_there = value.is_some();
            }
            let labels: Vec<_> = key.1.iter().map(|(a, b)| format!("{a}=\"{b}\"")).collect();
            let (name, labels) = (key.0, labels.join(","));
            let _ = writeln!(into, "      - series: '{name}{{{labels}}}'");
            let _ = writeln!(into, "        values: '{}'", slots.join(" "));
        }
        into.push_str("    promql_expr_test:\n");
        let firing = self.firing();
        let changes = firing.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        let asked: BTreeMap<_, _> =
            changes.flatten().cloned().chain(firing.last().cloned()).collect();
        for (at_ms, firing) in &asked {
            let _ = writeln!(
                into,
                "      - expr: 'count by (alertname) (ALERTS{{alertstate=\"firing\"}})'\n        \
                 eval_time: {}m\n        exp_samples: {}",
                at_ms / 60_000,
                if firing.is_empty() { "[]" } else { "" }
            );
            for (name, count) in firing {
                let labels = format!("{{alertname=\"{name}\"}}");
                let _ = writeln!(into, "          - {{labels: '{labels}', value: {count}}}");
            }
        }
        asked.len()
    }
}

#[test]
fn promtool_finds_the_same_alerts_at_the_same_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut others = String::from("groups:\n  - name: others\n    rules:\n");
    for rule in RULES.0.iter().filter(|rule| !rule.name.starts_with("Parachron")) {
        let (name, text, lasts) = (rule.name, rule.text, rule.lasts);
        let _ =
            writeln!(others, "      - alert: {name}\n        expr: '{text}'\n        for: {lasts}");
    }
    std::fs::write(path("others.yml"), others).unwrap();
    std::fs::write(path("rules.yml"), fleet::rules(None)).unwrap();
    let mut file =
        String::from("rule_files: [rules.yml, others.yml]\nevaluation_interval: 1m\ntests:\n");
    let mut asked = 0;
    for (number, fault) in FAULTS.iter().enumerate() {
        for (other, on) in INSTALLATIONS.iter().enumerate().skip(number % 2).step_by(2) {
            let number = (number * 100 + other) as u64;
            let fault_ms = run(fault, on, number, &mut ()).fault_ms.0;
            // On the grid of evaluations, as scrapes are a third off it.
            let from_ms = (fault_ms - BEFORE_MS) / EACH_MS * EACH_MS;
            let mut trace = Trace { from_ms, ..Trace::default() };
            run(fault, on, number, &mut trace);
            asked +=
                trace.write(&format!("{}, {}", fault.name.replace('\'', ""), on.name), &mut file);
        }
    }
    assert!(asked > 60, "{asked}");
    std::fs::write(path("traces.yml"), file).unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "traces.yml"]).current_dir(folder.path());
    let Ok(output) = promtool.output() else {
        let said = "skipped: no promtool (Debian's package prometheus)";
        return writeln!(std::io::stderr(), "{said}").unwrap();
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
