//! What the commands said, held against the truth of the row.

use std::collections::BTreeSet;

use serde_json::Value;

use super::COMMANDS;
use crate::checks::{Check, Outputs, list};
use crate::deeds::{order, watching};
use crate::records::Record;
use crate::table::{Read, Truth};

/// The call by which clock sources are compared.
const CALL: &str = "clock_gettime(CLOCK_MONOTONIC)";

/// All checks; each begins with the command that it is of. By day, beside whatever else runs on
/// this system, a pause that `watch` tells of may be one.
pub(super) fn all(truth: &Truth, records: &[Record], by_day: bool) -> Vec<Check> {
    let outputs = Outputs(records);
    let mut checks: Vec<Check> = COMMANDS.iter().map(|(name, ..)| ended(records, name)).collect();
    checks.push(machine(truth, outputs));
    checks.push(findings(truth, outputs));
    checks.extend(clocks(truth, outputs));
    checks.extend(bench(truth, outputs));
    if !by_day {
        let watch = outputs.stdout("watch").unwrap_or_default();
        checks.push(watching::judge_calm(&truth.may_tell, watch));
    }
    checks
}

/// A command ended with exit code 0, and without a panic.
fn ended(records: &[Record], name: &str) -> Check {
    let record = records.iter().find(|record| record.name == name);
    let found = record.ok_or_else(|| "no record".to_owned());
    Check::of(&format!("{name}: exit code 0"), found, |record| {
        let last = record.stderr.lines().next_back().unwrap_or_default();
        let panicked = record.stderr.contains("panicked at");
        (format!("{} {last}", record.status).trim().to_owned(), record.status == 0 && !panicked)
    })
}

fn machine(truth: &Truth, outputs: Outputs<'_>) -> Check {
    let what = format!("doctor: the machine is {:?}", truth.machine);
    Check::of(&what, outputs.json("doctor"), |report| {
        let found = report["machine"]["hardware"].as_str().unwrap_or_default().to_owned();
        // Bochs is what QEMU's firmware calls itself.
        let passed = found.contains(&truth.machine) && !found.contains("Bochs");
        (found, passed)
    })
}

/// What is found where the findings are just those of the row.
const THESE: &str = "these";

/// A finding more or less is an error, but for those that are true now and then.
fn findings(truth: &Truth, outputs: Outputs<'_>) -> Check {
    let finding = |line: &String| line.split(": ").next().unwrap_or_default().to_owned();
    let expected: BTreeSet<String> = truth.findings.iter().map(finding).collect();
    let may: BTreeSet<String> = truth.may_find.iter().map(finding).collect();
    let all = expected.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let what = format!("doctor: finds {}", or_nothing(&all));
    Check::of(&what, outputs.json("doctor"), |report| {
        let word = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("?").to_owned();
        let findings = list(&report["diagnosis"]["findings"]).iter();
        let found: BTreeSet<String> = findings
            .map(|finding| format!("{} {}", word(finding, "severity"), word(finding, "rule")))
            .collect();
        let listed = |names: Vec<&String>| {
            names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        let more: Vec<&String> = found.difference(&expected).collect();
        let less = listed(expected.difference(&found).collect());
        let passed = less.is_empty() && more.iter().all(|one| may.contains(*one));
        let more = listed(more);
        let text = match (passed, more.as_str()) {
            (true, "") => THESE.to_owned(),
            (true, more) => format!("{THESE}, and: {more}"),
            (false, more) => {
                format!("too many: {}; missing: {}", or_nothing(more), or_nothing(&less))
            }
        };
        (text, passed)
    })
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

fn clocks(truth: &Truth, outputs: Outputs<'_>) -> Vec<Check> {
    let (source, report) = (&truth.clocksource, outputs.json("clocks"));
    let current = Check::of(
        &format!("clocks: {source} is current, of {}", truth.available.join(", ")),
        report.clone(),
        |report| {
            let names = list(&report["available"]["known"]).iter();
            let names: Vec<&str> = names.filter_map(Value::as_str).collect();
            let current = report["current"]["known"].as_str().unwrap_or("none");
            let may = |name: &&str| truth.may_offer.iter().any(|may| may == name);
            let offered: BTreeSet<&str> = names.iter().copied().filter(|one| !may(one)).collect();
            let expected = truth.available.iter().map(String::as_str).collect();
            let passed = current == source && offered == expected;
            (format!("{current} of {}", names.join(", ")), passed)
        },
    );
    let path = Check::of(&format!("clocks: {source} is {}", how(truth.read)), report, |report| {
        let mut sources = list(&report["sources"]).iter();
        let current = sources.find(|source| source["current"] == true);
        let counted = current.map(|source| &source["read_path"]["counted"]);
        counted.map_or(("not counted".to_owned(), false), |path| read(path, truth.read))
    });
    vec![current, path]
}

fn how(read: Read) -> &'static str {
    match read {
        Read::User => "read in user space",
        Read::Kernel => "read in the kernel",
    }
}

/// Counted calls: all of them entered the kernel, or none.
fn read(path: &Value, expected: Read) -> (String, bool) {
    let (calls, entered) = (path["calls"].as_u64(), path["entered"].as_u64());
    let (Some(calls), Some(entered)) = (calls, entered) else {
        return ("not counted".to_owned(), false);
    };
    let wanted = if expected == Read::Kernel { calls } else { 0 };
    (format!("{entered} of {calls} calls entered the kernel"), calls > 0 && entered == wanted)
}

/// Every source is measured, by its own path, and none steps back.
fn bench(truth: &Truth, outputs: Outputs<'_>) -> Vec<Check> {
    let report = outputs.json("bench");
    let mut checks = Vec::new();
    // Of them a witness tells (`deeds/order.rs`).
    let tsc_apart = truth.may_find.iter().any(|finding| finding.contains(order::RULE));
    for source in &truth.available {
        let expected = if *source == truth.clocksource { truth.read } else { by_name(source) };
        let run = report.as_ref().map_err(Clone::clone).and_then(|report| {
            let mut runs = list(&report["runs"]).iter();
            let run = runs.find(|run| run["clocksource"] == **source);
            run.ok_or_else(|| format!("no run under {source}"))
        });
        checks.push(Check::of(
            &format!("bench: {source} is {}", how(expected)),
            run.clone(),
            |run| {
                let mut costs = list(&run["costs"]).iter();
                let cost = costs.find(|cost| cost["call"] == CALL);
                cost.map_or((format!("no {CALL}"), false), |cost| read(&cost["path"], expected))
            },
        ));
        checks.push(Check::of(&format!("bench: under {source} no clock steps back"), run, |run| {
            let of_kernel = |clock: &&Value| {
                !tsc_apart || !clock["clock"].as_str().unwrap_or_default().starts_with("TSC")
            };
            let clocks: Vec<&Value> = list(&run["order"]).iter().filter(of_kernel).collect();
            let sum = |key| clocks.iter().filter_map(|clock| clock[key].as_u64()).sum::<u64>();
            let (readings, back) = (sum("readings"), sum("backward"));
            (format!("{back} of {readings} readings"), readings > 0 && back == 0)
        }));
    }
    let after = outputs.stdout("bench-source");
    checks.push(Check::of("bench: the clock source is as before", after, |name| {
        (name.to_owned(), name == truth.clocksource)
    }));
    checks
}

/// Where Linux reads a source that is not this row's own (vdso_clock_mode of
/// its struct clocksource).
fn by_name(source: &str) -> Read {
    match source {
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" => Read::User,
        _ => Read::Kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn a_command_that_was_cut_off_is_wrong() {
        let rows = Table::read().unwrap().rows;
        let truth = rows.iter().find(|row| row.name == "q35-6.12").unwrap().truth().unwrap();
        let record = |name: &str| Record {
            name: name.into(),
            status: if name == "doctor" { 143 } else { 0 },
            started_s: 1.0,
            ended_s: 2.0,
            stdout: String::new(),
            stderr: String::new(),
            is_damaged: false,
        };
        let records: Vec<Record> = COMMANDS.iter().map(|(name, ..)| record(name)).collect();
        let checks = all(truth, &records, false);
        let of_doctor = checks.iter().filter(|check| check.what.starts_with("doctor: "));
        assert_eq!(of_doctor.filter(|check| !check.passed).count(), 3);
        assert!(checks.iter().any(|check| check.what.starts_with("watch: nothing")));
        assert!(all(truth, &records, true).len() == checks.len() - 1, "by day");
    }
}
