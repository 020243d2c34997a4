//! Whole reports, from machines of testdata, as text.

use std::path::PathBuf;

use doctor::finding::{CheckState, Severity, TimeState};
use doctor::report::{DoctorReport, Origin};
use doctor::report_text::{ReportExtent, TextScreen, render};
use inspect::tree::Tree;

use super::{exit_code, state};

pub(super) fn report(name: &str) -> DoctorReport {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines"));
    let tree = Tree::captured(&folder.join(name)).unwrap();
    let origin = Origin { root: Some(name.to_owned()), ..Origin::default() };
    DoctorReport::new(inspect::read(&tree), None).with_origin(origin)
}

fn text(name: &str, extent: ReportExtent) -> String {
    render(&report(name), extent, TextScreen::PLAIN)
}

#[test]
fn text_of_a_sick_guest() {
    let text = text("kvm-guest-hpet-tsc-unstable", ReportExtent::Page);
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_a_healthy_server_with_all_rules() {
    insta::assert_snapshot!(text("healthy-bare-metal", ReportExtent::Whole));
}

#[test]
fn a_report_too_long_for_a_screen_says_what_to_do_first() {
    let text = text("kvm-guest-hpet-tsc-unstable", ReportExtent::Screen);
    insta::assert_snapshot!(text);
}

#[test]
fn up_to_five_findings_fit_a_screen() {
    let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines");
    let folders = std::fs::read_dir(machines).unwrap().map(|entry| entry.unwrap().path());
    for name in folders.filter(|path| path.is_dir()).map(|path| path.display().to_string()) {
        let report = report(&name);
        let text = render(&report, ReportExtent::Screen, TextScreen::PLAIN);
        let fits = text.lines().count() <= 25;
        assert!(fits || report.diagnosis.findings.len() > 5, "{name}: {text}");
    }
}

#[test]
fn every_report_fits_80_columns_except_unbreakable_words() {
    for name in ["contradictory", "kvm-guest-hpet-tsc-unstable", "no-sys", "virtualbox-acpi-pm"] {
        for line in text(name, ReportExtent::Whole).lines() {
            let width = line.chars().count();
            assert!(width <= 80 || line.split_whitespace().count() < 3, "{width}: {line}");
        }
    }
}

#[test]
fn colours_change_nothing_but_the_colours() {
    let report = report("contradictory");
    let coloured =
        render(&report, ReportExtent::Whole, TextScreen { colours: true, ..TextScreen::PLAIN });
    assert!(coloured.contains("\u{1b}["));
    let stripped = anstream::adapter::strip_str(&coloured).to_string();
    assert_eq!(stripped, render(&report, ReportExtent::Whole, TextScreen::PLAIN));
}

#[test]
fn the_exit_code_follows_fail_on() {
    let shown = |name: &str, fail_on| format!("{:?}", exit_code(&report(name).diagnosis, fail_on));
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
fn a_right_time_alone_is_no_all_clear() {
    let mut diagnosis = report("healthy-kvm-guest").diagnosis;
    diagnosis.time.state = TimeState::Right;
    assert_eq!(state(&diagnosis), ("OK", 0));
    diagnosis.findings.clear();
    diagnosis.checked.iter_mut().for_each(|entry| entry.state = CheckState::NotChecked);
    assert_eq!(state(&diagnosis), ("UNKNOWN", 3));
    diagnosis.checked.iter_mut().for_each(|entry| entry.state = CheckState::DoesNotApply);
    assert_eq!(state(&diagnosis), ("OK", 0));
}
