//! `parachron doctor` on the machine that it stands on.

use crate::program::shared;
use serde_json::Value;

#[test]
fn doctor_gives_a_verdict_here() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run(&["doctor"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let verdict = said.out.lines().next().expect("a first line");
    assert!(verdict.starts_with("The clock "), "{verdict}");
    for line in said.out.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

#[test]
fn doctor_tells_by_its_exit_code() {
    let Some(program) = &shared(&[]) else { return };
    let arguments = ["doctor", "--no-measure", "--format", "json", "--fail-on", "warning"];
    let said = program.run(&arguments);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let findings = report["diagnosis"]["findings"].as_array().expect("findings");
    let found = findings.iter().any(|finding| finding["severity"] != "note");
    assert_eq!(said.code, Some(i32::from(found)), "{}", said.err);
}

/// What is forbidden is reported, the rest is done.
#[test]
fn doctor_does_without_root() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run_unprivileged(&["doctor", "--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(report["facts"]["clocksources"]["current"].get("known").is_some(), "{}", said.out);
    assert!(report["measurements"]["costs"].as_array().is_some_and(|costs| !costs.is_empty()));
}
