//! The program as people run it: exit codes, messages, formats.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn machine(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines")).join(name)
}

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parachron"))
        .arg("doctor")
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn doctor_on(name: &str, more: &[&str]) -> Output {
    let folder = machine(name);
    let mut arguments = vec!["--root", folder.to_str().unwrap()];
    arguments.extend(more);
    doctor(&arguments)
}

#[test]
fn exit_codes_follow_the_severity_asked_for() {
    let code = |name, more: &[&str]| doctor_on(name, more).status.code();
    assert_eq!(code("healthy-kvm-guest", &["--fail-on", "warning"]), Some(0));
    assert_eq!(code("virtualbox-acpi-pm", &[]), Some(0));
    assert_eq!(code("virtualbox-acpi-pm", &["--fail-on", "error"]), Some(1));
    assert_eq!(code("no-sys", &["--fail-on", "error"]), Some(0));
    assert_eq!(code("no-sys", &["--fail-on", "warning"]), Some(1));
}

#[test]
fn a_folder_that_is_none_is_told_with_a_remedy() {
    let a_file = machine("README.md");
    for root in ["testdata/no such folder", a_file.to_str().unwrap()] {
        let output = doctor(&["--root", root]);
        assert_eq!(output.status.code(), Some(2), "{root}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("cannot open the folder"), "{stderr}");
        assert!(stderr.contains("try: "), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_empty_folder_is_a_machine_that_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = doctor(&["--root", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("clock sources are not readable"), "{stdout}");
}

#[test]
fn a_file_that_is_no_terminal_gets_no_colours() {
    let output = doctor_on("contradictory", &["--verbose"]);
    assert!(!output.stdout.contains(&0x1b));
    assert!(output.stderr.is_empty());
}

#[test]
fn every_format_is_given() {
    let stdout = |format| doctor_on("ec2-xen", &["--format", format]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&stdout("json")).unwrap();
    assert_eq!(json["diagnosis"]["findings"][0]["rule"], "slow-clocksource");
    assert_eq!(json["measurements"], serde_json::Value::Null);
    assert!(stdout("markdown").starts_with(b"**The clock works, at risk"));
    assert!(stdout("csv").starts_with(b"severity,rule,what"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parachron"))
        .args(["doctor", "--verbose", "--root"])
        .arg(machine("contradictory"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn this_very_machine_is_examined_and_measured() {
    let output = doctor(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["machine"]["read_cost"]["ns"]["median"].as_f64().unwrap() > 0.0);
    let findings = json["diagnosis"]["findings"].as_array().unwrap().len();
    let checked = json["diagnosis"]["checked"].as_array().unwrap().len();
    assert!(findings + checked >= doctor::rules::RULES.len());
}
