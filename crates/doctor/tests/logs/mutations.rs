//! Logs of testdata/logs with a line dropped or a digit changed.

use super::corpus::{Case, cases};
use super::findings;
use super::judge::judge;
use super::verdicts::{in_field, strip_lines};

/// A small part by default; all with PARACHRON_LONG=1.
fn step() -> usize {
    if std::env::var_os("PARACHRON_LONG").is_some() { 1 } else { 41 }
}

fn verdict(log: &str) -> String {
    findings(log).iter().map(super::text).collect::<Vec<_>>().join("\n")
}

/// Without any one of its lines a log shows the same cause, or less.
#[test]
fn a_missing_line_makes_no_verdict_false() {
    let mut wrong = String::new();
    for case in cases() {
        for dropped in 0..case.log.lines().count() {
            let lines = case.log.lines().enumerate().filter(|(at, _)| *at != dropped);
            let log: String = lines.map(|(_, line)| format!("{line}\n")).collect();
            let line = case.log.lines().nth(dropped).unwrap_or_default();
            let is_witness =
                WITNESSES.iter().any(|(name, part)| case.name == *name && line.contains(part));
            if is_witness {
                continue;
            }
            if let Some(fault) = judge(&case.truth, &findings(&log)).false_cause
                && !is_withdrawn(&fault)
            {
                wrong += &format!("{} without `{line}`: {fault}\n", case.name);
            }
        }
    }
    let count = wrong.lines().count();
    assert!(wrong.is_empty(), "{count}:\n{wrong}");
}

/// Verdicts that state no cause.
fn is_withdrawn(what: &str) -> bool {
    [
        "the log does not show why",
        "it differs from its reference",
        "contradict each other",
        "one check cannot show",
        "its lines do not show why",
    ]
    .iter()
    .any(|phrase| what.contains(phrase))
}

/// Lines that alone show the cause: what is left fits another, which the verdict names with
/// its alternatives.
const WITNESSES: &[(&str, &str)] = &[
    // A read was late indeed; that a test delayed it is in this line alone.
    ("readback-injected-62939", "inject_delay"),
    // "Or the reference jumped. The lines do not show which."
    ("watchdog-injected-hpet", "Planted return probe"),
];

/// Any digit of a counter, changed to any other.
#[test]
fn a_changed_digit_of_a_counter_changes_or_withdraws_the_verdict() {
    let (mut changed, mut standing, mut seen) = (0, Vec::new(), 0);
    for case in cases().iter().filter(|case| uses_counters(case)) {
        let before = strip_lines(&verdict(&case.log));
        if before.contains("contradict each other") {
            continue;
        }
        for (at, byte) in case.log.bytes().enumerate() {
            let ends_in =
                |labels: &[&str]| labels.iter().any(|label| in_field(&case.log[..at], label));
            // A pager cut off the counter's other reading, without which it is no length.
            let line_end = case.log[at..].lines().next().unwrap_or_default();
            let is_cut = line_end.trim_end().ends_with('>');
            let digits: &[u8] = if ends_in(&["_now: ", "_last: "]) && !is_cut {
                b"0123456789abcdef"
            } else if ends_in(&["_nsec: ", "delta = ", "skewed ", "Measured "]) {
                b"0123456789"
            } else {
                continue;
            };
            if !byte.is_ascii_hexdigit() {
                continue;
            }
            for digit in digits.iter().filter(|digit| **digit != byte) {
                seen += 1;
                if seen % step() != 0 {
                    continue;
                }
                let mut log = case.log.clone().into_bytes();
                log[at] = *digit;
                let log = String::from_utf8(log).expect("UTF-8");
                changed += 1;
                if strip_lines(&verdict(&log)) == before {
                    standing.push(format!("{}: {}", case.name, &log[at.saturating_sub(24)..=at]));
                }
            }
        }
    }
    println!("{changed} digits changed");
    let shown = &standing[..standing.len().min(800)];
    assert!(standing.is_empty(), "{} of {changed}: {shown:#?}", standing.len());
}

/// Where the kernel's message or a test decides, no counter is used.
fn uses_counters(case: &Case) -> bool {
    case.log.contains("_now") && case.truth.cause != "forced-by-test"
}
