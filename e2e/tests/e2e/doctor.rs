//! `parachron doctor` on the machine that it stands on.

use std::os::unix::process::CommandExt;

use e2e::{Case, Need, Program, Said};
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    Case { name: "doctor_gives_a_verdict_here", needs: &[], run: doctor_gives_a_verdict_here },
    Case { name: "doctor_tells_by_its_exit_code", needs: &[], run: doctor_tells_by_its_exit_code },
    Case { name: "doctor_does_without_root", needs: &[Need::Root], run: doctor_does_without_root },
];

fn doctor_gives_a_verdict_here(program: &Program) {
    let said = program.run(&["doctor"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let verdict = said.out.lines().next().expect("a first line");
    assert!(verdict.starts_with("Time "), "{verdict}");
    for line in said.out.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

fn doctor_tells_by_its_exit_code(program: &Program) {
    let arguments = ["doctor", "--no-measure", "--format", "json", "--fail-on", "warning"];
    let said = program.run(&arguments);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let findings = report["diagnosis"]["findings"].as_array().expect("findings");
    let found = findings.iter().any(|finding| finding["severity"] != "note");
    assert_eq!(said.code, Some(i32::from(found)), "{}", said.err);
}

/// As `nobody`: what is forbidden is told, the rest is done.
fn doctor_does_without_root(program: &Program) {
    const NOBODY: u32 = 65534;
    // Nobody may not be allowed to where the build put it.
    let place = tempfile::tempdir().expect("a temporary folder");
    let copy = place.path().join("parachron");
    std::fs::copy(program.path(), &copy).expect("the program can be copied");
    open_to_all(place.path());
    let mut command = std::process::Command::new(&copy);
    command.args(["doctor", "--format", "json"]).uid(NOBODY).gid(NOBODY).current_dir("/");
    let said = Said::from(command.output().expect("the copy starts"));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(report["facts"]["clocksources"]["current"].get("known").is_some(), "{}", said.out);
    assert!(report["measurements"]["costs"].as_array().is_some_and(|costs| !costs.is_empty()));
}

fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, all).expect("our own folder");
}
