//! `parachron capture`, and the doctor on what it took.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::need::Need;
use crate::program::{Program, ProgramOutput, alone, shared};
use serde_json::Value;

/// The names of the rules that found something.
fn found(program: &Program, arguments: &[&str]) -> BTreeSet<String> {
    let mut all = vec!["doctor", "--format", "json"];
    all.extend(arguments);
    let said = program.run(&all);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{all:?}");
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let findings = report["diagnosis"]["findings"].as_array().expect("findings");
    findings.iter().filter_map(|finding| finding["rule"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_capture_is_diagnosed_alike() {
    let Some(program) = &alone(&[]) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("machine");
    let folder = folder.to_str().expect("UTF-8");
    // Load and offset move: the capture lies between two reads.
    let before = found(program, &["--no-measure"]);
    let said = program.run(&["capture", folder]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let after = found(program, &["--no-measure"]);
    let captured = found(program, &["--root", folder]);
    assert!(
        captured.is_subset(&(&before | &after)) && captured.is_superset(&(&before & &after)),
        "before {before:?}, captured {captured:?}, after {after:?}"
    );
}

/// In a namespace of its own the host has a name that nothing else has.
#[test]
fn a_capture_holds_no_host_name() {
    let Some(program) = &shared(&[Need::Root, Need::Tool("unshare")]) else { return };
    const NAME: &str = "zanzibar-7f3a";
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("machine");
    let named = format!("echo {NAME} > /proc/sys/kernel/hostname && exec \"$@\"");
    let output = Command::new("unshare")
        .args(["--uts", "sh", "-c", &named, "sh"])
        .arg(program.path())
        .arg("capture")
        .arg(&folder)
        .output();
    let said = ProgramOutput::from(output.expect("unshare is there"));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let mut files = Vec::new();
    read_all(&folder, &mut files);
    assert!(!files.is_empty());
    for (path, text) in files {
        assert!(!text.contains(NAME), "{path} holds this host's name: {text}");
        let secret = ["machine-id", "product_serial", "product_uuid"];
        assert!(!secret.iter().any(|secret| path.contains(secret)), "{path}");
    }
}

fn read_all(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of the capture") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, files);
        } else {
            let text = fs::read(&path).expect("a file of the capture");
            let text = String::from_utf8_lossy(&text).into_owned();
            files.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn a_capture_overwrites_nothing() {
    let Some(program) = &shared(&[]) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    fs::write(place.path().join("precious"), "kept").expect("our own folder");
    let said = program.run(&["capture", place.path().to_str().expect("UTF-8")]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("try: "), "{}", said.err);
    let kept = fs::read_to_string(place.path().join("precious"));
    assert_eq!(kept.expect("still there"), "kept");
    assert_eq!(fs::read_dir(place.path()).expect("still there").count(), 1);
}
