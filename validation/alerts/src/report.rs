//! The study as data, and what misses its bars.

use serde_json::{Map, Value, json};

use crate::faults::Since;
use crate::rules::RULES;
use crate::study::{Cell, DAYS};

/// Of the faults that are to be found, this share is, in the stated time.
const RECALL: f64 = 0.99;

/// False alarms in 1,000 days.
const FALSE_PER_1000: f64 = 1.0;

/// Rules of others, beside which ours stand.
const OTHERS: [&str; 3] = ["NodeClockSkewDetected", "NodeClockNotSynchronising", "ChronyBound"];

/// The share of faults that was found in time.
fn recall(cell: &Cell) -> f64 {
    cell.took_s.len() as f64 / cell.counted as f64
}

/// Cells whose recall is below the bar, and rules with too many false alarms.
pub fn missed(cells: &[Cell]) -> (Vec<String>, Vec<String>) {
    let below = cells.iter().filter(|cell| cell.counted > 0 && recall(cell) < RECALL);
    let below = below.map(|cell| format!("{}, {}", cell.fault.name, cell.on.name));
    let loud = RULES.0.iter().enumerate().filter(|(index, rule)| {
        let per_1000 = false_alarms(cells, *index) as f64 * 1000.0 / quiet_days(cells);
        !OTHERS.contains(&rule.name) && per_1000 > FALSE_PER_1000
    });
    (below.collect(), loud.map(|(_, rule)| rule.name.to_owned()).collect())
}

fn false_alarms(cells: &[Cell], rule: usize) -> u64 {
    cells.iter().map(|cell| cell.false_alarms[rule]).sum()
}

fn quiet_days(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| cell.quiet_days).sum()
}

/// How many days the machines were watched, all together.
pub fn machine_days(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.runs).sum::<u64>() * DAYS
}

/// All of the study (validation/results/README.md has its fields).
pub fn result(cells: &[Cell]) -> Value {
    let false_alarms = RULES
        .0
        .iter()
        .enumerate()
        .map(|(index, rule)| (rule.name.to_owned(), json!(false_alarms(cells, index))));
    json!({
        "machine_days": machine_days(cells),
        "quiet_days": quiet_days(cells),
        "false_alarms": false_alarms.collect::<Map<_, _>>(),
        "cells": cells.iter().map(of_cell).collect::<Vec<_>>(),
    })
}

fn of_cell(cell: &Cell) -> Value {
    let mut value = json!({
        "fault": cell.fault.name,
        "kept_by": cell.on.name,
        "runs": cell.runs,
        "counted": cell.counted,
    });
    if cell.counted == 0 {
        return value;
    }
    let expected = cell.fault.expected(cell.on);
    let fired = RULES.0.iter().zip(&cell.by_rule).filter(|(_, (count, _))| *count > 0);
    let fired = fired.map(|(rule, (count, sum_s))| {
        (rule.name.to_owned(), json!({ "fired": count, "mean_s": sum_s / *count as f64 }))
    });
    let since = if expected.since == Since::Begin { "it begins" } else { "it continues" };
    for (name, field) in [
        ("by", json!(expected.by)),
        ("within_s", json!(expected.within_s)),
        ("since", json!(since)),
        ("found", json!(cell.took_s.len())),
        ("without_consumer", json!(cell.without_consumer)),
        ("without_info", json!(cell.without_info)),
        ("median_s", json!(quantile(&cell.took_s, 0.5))),
        ("p99_s", json!(quantile(&cell.took_s, 0.99))),
        ("rules", json!(fired.collect::<Map<_, _>>())),
    ] {
        value[name] = field;
    }
    value
}

fn quantile(times_s: &[f64], share: f64) -> Option<f64> {
    let mut sorted = times_s.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::study;

    #[test]
    fn a_cell_without_a_fault_has_no_figures() {
        let cells = study(0, 1, None);
        let result = result(&cells);
        assert_eq!(result["machine_days"], 0);
        assert_eq!(result["false_alarms"]["ParachronClockOff"], 0);
        assert_eq!(result["cells"].as_array().map(Vec::len), Some(cells.len()));
        assert!(result["cells"][0]["found"].is_null());
    }

    #[test]
    fn figures_are_of_what_was_found() {
        let mut cell = study(0, 1, None).remove(0);
        (cell.runs, cell.counted, cell.took_s) = (4, 3, vec![70.0, 60.0]);
        cell.by_rule[0] = (2, 130.0);
        let value = of_cell(&cell);
        assert_eq!(value["found"], 2);
        assert_eq!((&value["median_s"], &value["p99_s"]), (&json!(70.0), &json!(70.0)));
        assert_eq!(value["rules"][RULES.0[0].name], json!({ "fired": 2, "mean_s": 65.0 }));
        assert_eq!(missed(&[cell]).0.len(), 1);
    }
}
