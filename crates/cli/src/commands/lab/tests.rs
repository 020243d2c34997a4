use lab::results::Report;

use super::LabReport;
use super::text::{self, Extent};
use crate::commands::bench::report::MachineIdentity;

/// All experiments; one check failed, one was not measured, one experiment
/// could not run.
pub(super) fn report() -> LabReport {
    let lab = include_str!("../../../../../testdata/lab/report.json");
    let lab: Report = serde_json::from_str(lab).unwrap();
    let machine =
        MachineIdentity { kernel: "6.18.0".into(), cpu: Some("AMD EPYC".into()), cpus: 2 };
    LabReport { version: "0.2.0".into(), machine, lab }
}

#[test]
fn the_report_as_text_fits_80_columns() {
    let text = text::render(&report(), Extent::Whole, false);
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, [""; 0]);
    insta::assert_snapshot!(text);
}

#[test]
fn the_answer_comes_first_and_the_short_report_is_one_screen() {
    let text = text::render(&report(), Extent::Short, false);
    assert!(text.starts_with("13 checks: "), "{text}");
    assert!(text.contains("FAILED") && !text.contains("Drift: guest time"), "{text}");
    // Two experiments more than by default, and one that could not run.
    assert!(text.lines().count() <= 28, "{text}");
}

#[test]
fn colours_are_on_verdicts_alone() {
    let mut report = report();
    report.lab.experiments.truncate(1);
    report.lab.not_run.clear();
    let [plain, coloured] =
        [false, true].map(|colours| text::render(&report, Extent::Whole, colours));
    let bare = anstream::adapter::strip_str(&coloured).to_string();
    assert_eq!(bare, plain);
    assert!(coloured.lines().any(|line| line.starts_with("\u{1b}[32mpassed\u{1b}[0m ")));
}
