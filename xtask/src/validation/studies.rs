//! Studies that are no test of a machine: alert rules, the model of Linux's timekeeping, stock
//! Linux on the lab's providers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::{Line, Parts, RESULTS, Stamp, count, items, short, word};
use crate::project::Project;

/// Of the faults that are to be found, this share is, in the stated time.
const FOUND: f64 = 0.99;

/// False alarms in 1,000 quiet days.
const FALSE_PER_1000: f64 = 1.0;

/// Rules of other projects, to compare with: no bar holds for them.
const OTHERS: [&str; 3] = ["NodeClockSkewDetected", "NodeClockNotSynchronising", "ChronyBound"];

/// The results of one file each, null where it is not there.
pub(super) struct Studies {
    alerts: Value,
    prometheus: Value,
    timekeeper: Value,
}

impl Studies {
    pub(super) fn read(project: &Project) -> Result<Self, String> {
        let read = |name: &str| {
            let path = project.path(RESULTS).join(name);
            let Ok(text) = fs::read(&path) else { return Ok(Value::Null) };
            serde_json::from_slice(&text).map_err(|why| format!("{}: {why}", path.display()))
        };
        Ok(Self {
            alerts: read("alerts.json")?,
            prometheus: read("prometheus.json")?,
            timekeeper: read("timekeeper.json")?,
        })
    }

    /// Those that are there.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        [&self.alerts, &self.prometheus, &self.timekeeper]
            .into_iter()
            .filter(|study| study.is_object())
    }

    pub(super) fn summarize(&self, parts: &mut Parts) {
        self.summarize_timekeeper(parts);
        self.summarize_alerts(parts);
        self.summarize_prometheus(parts);
    }

    fn summarize_timekeeper(&self, parts: &mut Parts) {
        let kernels = items(&self.timekeeper["kernels"]);
        let sum = |field: &str| kernels.iter().map(|kernel| count(&kernel[field])).sum::<u64>();
        let names: Vec<&str> = kernels.iter().map(|kernel| word(&kernel["kernel"])).collect();
        for kernel in kernels.iter().filter(|kernel| count(&kernel["different"]) > 0) {
            parts.wrong.push(format!(
                "Linux {}: {} readings differ from the model",
                word(&kernel["kernel"]),
                kernel["different"]
            ));
        }
        parts.lines.push(Line {
            what: "Model of Linux timekeeping, replayed".to_owned(),
            tried: format!(
                "{} random programs of `adjtimex` on Linux {}: calls, readings",
                sum("programs"),
                names.join(", ")
            ),
            right: sum("calls") + sum("readings") - sum("different"),
            wrong: sum("different"),
            not_measured: sum("delayed"),
            skipped: 0,
            stamps: stamps(&self.timekeeper),
        });
    }

    fn summarize_alerts(&self, parts: &mut Parts) {
        let alerts = &self.alerts;
        let mut below: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let (mut right, mut wrong, mut empty) = (0, 0, 0);
        for cell in items(&alerts["cells"]) {
            match share(cell) {
                None => empty += 1,
                Some(found) if found >= FOUND => right += 1,
                Some(found) => {
                    wrong += 1;
                    let on = format!("{} {:.1} %", word(&cell["kept_by"]), found * 100.0);
                    below.entry(word(&cell["fault"])).or_default().push(on);
                }
            }
        }
        for (fault, on) in below {
            parts.wrong.push(format!("Alerts, {fault}: found in {}", on.join("; ")));
        }
        let quiet_days = alerts["quiet_days"].as_f64().unwrap_or(0.0);
        for (rule, times) in alerts["false_alarms"].as_object().into_iter().flatten() {
            let rate = count(times) as f64 * 1000.0 / quiet_days;
            if rate > FALSE_PER_1000 && !OTHERS.contains(&rule.as_str()) {
                wrong += 1;
                parts.wrong.push(format!("`{rule}`: {rate:.1} false alarms in 1,000 days"));
            }
        }
        if empty > 0 {
            parts.absent.push(format!(
                "Alerts: in {empty} of the simulated fault and daemon pairs no fault was to be \
                 found: the clock was right again in time."
            ));
        }
        parts.lines.push(Line {
            what: "Alert rules on simulated machines".to_owned(),
            tried: format!("{} machine-days; pairs of fault and daemon", alerts["machine_days"]),
            right,
            wrong,
            not_measured: 0,
            skipped: empty,
            stamps: stamps(alerts),
        });
    }

    fn summarize_prometheus(&self, parts: &mut Parts) {
        let study = &self.prometheus;
        let wrong = items(&study["wrong"]);
        for finding in wrong {
            parts.wrong.push(format!("Prometheus: {}", word(finding)));
        }
        let faults = items(&study["faults"]).len() as u64;
        parts.lines.push(Line {
            what: "Alert rules in a real Prometheus".to_owned(),
            tried: format!("{} daemons, {faults} kinds of node", study["daemons"]),
            right: faults.saturating_sub(wrong.len() as u64),
            wrong: wrong.len() as u64,
            not_measured: 0,
            skipped: 0,
            stamps: stamps(study),
        });
    }

    /// The share of faults that were found, by fault and daemon.
    pub(super) fn alerts_table(&self, text: &mut String) {
        let alerts = &self.alerts;
        let cells = items(&alerts["cells"]);
        let mut kept_by: Vec<&str> = Vec::new();
        let mut faults: Vec<&str> = Vec::new();
        for cell in cells {
            for (list, name) in [(&mut kept_by, "kept_by"), (&mut faults, "fault")] {
                if !list.contains(&word(&cell[name])) {
                    list.push(word(&cell[name]));
                }
            }
        }
        let false_alarms = alerts["false_alarms"].as_object().into_iter().flatten();
        let ours = false_alarms.filter(|(rule, _)| !OTHERS.contains(&rule.as_str()));
        let _ = write!(
            text,
            "\n## Alert rules on simulated machines\n\n\
             The share of faults that an alert found in its stated time, and the median. `–`: no \
             fault was\nto be found, because the clock was right again in time. The bar is {:.0} %, \
             and at most {FALSE_PER_1000:.0} false alarm in\n1,000 days: {} in {:.0} quiet days.\n\n| fault | {} |\n| --- |{}\n",
            FOUND * 100.0,
            ours.map(|(_, times)| count(times)).sum::<u64>(),
            alerts["quiet_days"].as_f64().unwrap_or(0.0),
            kept_by.join(" | "),
            " ---: |".repeat(kept_by.len()),
        );
        for fault in faults {
            let row = kept_by.iter().map(|on| {
                let is_it = |cell: &&Value| cell["fault"] == fault && cell["kept_by"] == **on;
                cells.iter().find(is_it).map_or_else(String::new, found)
            });
            let _ = writeln!(text, "| {fault} | {} |", row.collect::<Vec<_>>().join(" | "));
        }
        let mut by_others: BTreeMap<&str, u64> = OTHERS.map(|rule| (rule, 0)).into();
        for (rule, times) in &mut by_others {
            *times = cells.iter().map(|cell| count(&cell["rules"][*rule]["fired"])).sum();
        }
        let all: u64 = cells.iter().map(|cell| count(&cell["counted"])).sum();
        let others = by_others.iter().map(|(rule, times)| format!("`{rule}` {times}"));
        let _ = writeln!(
            text,
            "\nOf the {all} faults to be found, other projects' rules found, at any time: {}.",
            others.collect::<Vec<_>>().join(", ")
        );
    }
}

fn stamps(study: &Value) -> Vec<Stamp> {
    if study.is_object() { vec![Stamp::from_result(study)] } else { Vec::new() }
}

/// Of the faults that were to be found, how many were in time.
fn share(cell: &Value) -> Option<f64> {
    let counted = count(&cell["counted"]);
    (counted > 0).then(|| count(&cell["found"]) as f64 / counted as f64)
}

fn found(cell: &Value) -> String {
    let Some(share) = share(cell) else { return "–".to_owned() };
    let median = match cell["median_s"].as_f64() {
        None => String::new(),
        Some(s) if s < 120.0 => format!(", {s:.0} s"),
        Some(s) => format!(", {:.1} min", s / 60.0),
    };
    let text = format!("{:.0} %{median}", (share * 100.0).floor());
    if share < FOUND { format!("**{text}**") } else { text }
}

/// Stock Linux on the lab's providers, a result for each row.
pub(super) fn summarize_providers(parts: &mut Parts, providers: &[Value]) {
    for result in providers {
        let row = word(&result["row"]);
        for check in items(&result["failed"]) {
            let [name, expected, found] =
                ["name", "expected", "found"].map(|field| short(word(&check[field])));
            parts.wrong.push(format!("`{row}`: {name}. Expected: {expected}. Found: {found}"));
        }
        let (boots, moves) = (items(&result["boots"]).len(), items(&result["moves"]).len());
        let (passed, failed) = (count(&result["passed"]), items(&result["failed"]).len() as u64);
        parts.lines.push(Line {
            what: format!("Stock Linux on the lab's providers, `{row}`"),
            tried: format!("{boots} boots, {moves} moves"),
            right: passed,
            wrong: failed,
            not_measured: count(&result["all"]).saturating_sub(passed + failed),
            skipped: 0,
            stamps: vec![Stamp::from_result(result)],
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_share_below_the_bar_is_marked_and_listed() {
        let cell = |counted: u64, found: u64| json!({ "fault": "pause", "kept_by": "ntpd", "counted": counted, "found": found, "median_s": 282.0 });
        assert_eq!(found(&cell(0, 0)), "–");
        assert_eq!(found(&cell(100, 99)), "99 %, 4.7 min");
        assert_eq!(found(&cell(1000, 989)), "**98 %, 4.7 min**");
        let alerts = json!({ "machine_days": 4, "quiet_days": 900.0, "cells": [cell(100, 98), cell(0, 0)],
            "false_alarms": { "ParachronClockOff": 1, "NodeClockSkewDetected": 9 } });
        let studies = Studies { alerts, prometheus: Value::Null, timekeeper: Value::Null };
        let mut parts = Parts::default();
        studies.summarize_alerts(&mut parts);
        assert_eq!(
            parts.wrong,
            [
                "Alerts, pause: found in ntpd 98.0 %",
                "`ParachronClockOff`: 1.1 false alarms in 1,000 days"
            ]
        );
        let line = &parts.lines[0];
        assert_eq!((line.right, line.wrong, line.skipped), (0, 2, 1));
    }

    #[test]
    fn a_failed_check_of_a_provider_is_listed() {
        let result = json!({ "row": "linux-moved", "passed": 5, "all": 7, "moves": [1],
            "failed": [{ "name": "rate", "expected": "0", "found": "2\n3" }] });
        let mut parts = Parts::default();
        summarize_providers(&mut parts, &[result]);
        assert_eq!(parts.wrong, ["`linux-moved`: rate. Expected: 0. Found: 2 3"]);
        let line = &parts.lines[0];
        assert_eq!((line.right, line.wrong, line.not_measured), (5, 1, 1));
    }
}
