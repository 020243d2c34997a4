//! Whole reports, from machines of testdata, in every format.

use std::path::PathBuf;

use doctor::finding::Severity;
use doctor::report::{DoctorReport, Origin};
use doctor::report_text::{TextScreen, render};
use doctor::selection::RuleSelection;
use inspect::tree::Tree;

use super::{csv, exit_code, markdown};

pub(super) fn report(name: &str) -> DoctorReport {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines"));
    let tree = Tree::captured(&folder.join(name)).unwrap();
    let origin = Origin { root: Some(name.to_owned()), ..Origin::default() };
    DoctorReport::new(inspect::read(&tree), None).with_origin(origin)
}

fn text(name: &str, verbose: bool) -> String {
    render(&report(name), verbose, TextScreen::PLAIN)
}

#[test]
fn text_of_a_sick_guest() {
    let text = text("kvm-guest-hpet-tsc-unstable", false);
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_a_healthy_server_with_all_rules() {
    insta::assert_snapshot!(text("healthy-bare-metal", true));
}

#[test]
fn every_report_fits_80_columns_except_unbreakable_words() {
    for name in ["contradictory", "kvm-guest-hpet-tsc-unstable", "no-sys", "virtualbox-acpi-pm"] {
        for line in text(name, true).lines() {
            let width = line.chars().count();
            assert!(width <= 80 || line.split_whitespace().count() < 3, "{width}: {line}");
        }
    }
}

#[test]
fn colours_change_nothing_but_the_colours() {
    let report = report("contradictory");
    let coloured = render(&report, true, TextScreen { colours: true, ..TextScreen::PLAIN });
    assert!(coloured.contains("\u{1b}["));
    let stripped = anstream::adapter::strip_str(&coloured).to_string();
    assert_eq!(stripped, render(&report, true, TextScreen::PLAIN));
}

#[test]
fn markdown_of_a_sick_guest() {
    insta::assert_snapshot!(markdown::render(&report("virtualbox-acpi-pm"), true));
}

#[test]
fn csv_has_a_row_for_each_finding_or_with_verbose_for_each_rule() {
    let diagnosis = report("no-sys").diagnosis;
    assert_eq!(csv::render(&diagnosis, false).lines().count(), 1 + diagnosis.findings.len());
    let all = 1 + diagnosis.findings.len() + diagnosis.checked.len();
    assert_eq!(csv::render(&diagnosis, true).lines().count(), all);
}

#[test]
fn the_exit_code_follows_fail_on() {
    let shown =
        |name: &str, fail_on| format!("{:?}", exit_code([&report(name).diagnosis], fail_on));
    let success = format!("{:?}", std::process::ExitCode::SUCCESS);
    // A warning alone.
    assert_eq!(shown("no-sys", None), success);
    assert_ne!(shown("no-sys", Some(Severity::Warning)), success);
    assert_eq!(shown("no-sys", Some(Severity::Error)), success);
    // An error.
    assert_ne!(shown("virtualbox-acpi-pm", Some(Severity::Error)), success);
    assert_eq!(shown("healthy-kvm-guest", Some(Severity::Warning)), success);
}

#[test]
fn a_report_survives_json() {
    let report = report("healthy-kvm-guest");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<DoctorReport>(&json).unwrap(), report);
}

#[test]
fn a_report_as_json_is_examined_as_its_machine_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web-3.json");
    let made = report("kvm-guest-hpet-tsc-unstable");
    std::fs::write(&path, serde_json::to_string(&made).unwrap()).unwrap();
    let again = super::examined(&path, &RuleSelection::default()).unwrap();
    assert_eq!(again.diagnosis, made.diagnosis);
    assert!(again.origin.name().ends_with("web-3.json"), "{}", again.origin.name());
    let only = RuleSelection { only: vec!["tsc-marked-unstable".into()], ..Default::default() };
    assert_eq!(super::examined(&path, &only).unwrap().diagnosis.findings.len(), 1);
    let mut fleet = serde_json::to_value(&made.facts).unwrap();
    fleet["schema"] = "parachron-doctor-fleet".into();
    for wrong in [fleet.to_string().as_str(), "", "{", "[[[["] {
        std::fs::write(&path, wrong).unwrap();
        assert!(super::examined(&path, &RuleSelection::default()).is_err(), "{wrong}");
    }
}
