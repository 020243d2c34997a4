use super::*;
use crate::results::Report;

/// All experiments; one check failed, one was not measured, one experiment
/// could not run.
fn report() -> Report {
    let report = include_str!("../../../../testdata/lab/report.json");
    serde_json::from_str(report).unwrap()
}

#[test]
fn the_report_as_tap() {
    insta::assert_snapshot!(tap(&report()));
}

#[test]
fn the_report_as_junit() {
    insta::assert_snapshot!(junit(&report()));
}
