//! `parachron capture`, and the doctor on what it took.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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

fn parachron(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parachron")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_capture_says_what_it_took_and_how_to_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("captured");
    let ran = parachron(&["capture", "--verbose", place.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let printed = text(&ran.stdout);
    assert!(printed.starts_with(&format!("{}: ", place.display())), "{printed}");
    for part in ["/proc/cmdline", "words about time", "parachron doctor --root"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(printed.lines().all(|line| line.chars().count() <= 80 || line.contains("--root")));
    assert_eq!(names(folder.path()), ["captured"]);
    assert!(place.join("proc/sys/kernel/osrelease").is_file());

    // Its own name is now taken.
    let again = parachron(&["capture", place.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2));
    let printed = text(&again.stderr);
    assert!(printed.contains("exists and is not an empty folder"), "{printed}");
    assert!(printed.contains("DIR` with a folder that does not exist yet"), "{printed}");
    assert!(place.join("proc/sys/kernel/osrelease").is_file());
}

#[test]
fn a_dry_run_writes_nothing_and_lists_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("captured");
    let dry = parachron(&["capture", "--dry-run", "--format", "json", place.to_str().unwrap()]);
    assert_eq!(dry.status.code(), Some(0), "{}", text(&dry.stderr));
    assert!(names(folder.path()).is_empty());
    let wet = parachron(&["capture", "--format", "json", place.to_str().unwrap()]);
    let items = |manifest: &[u8]| {
        let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
        let keys = |part: &str| {
            let part = manifest[part].as_object().unwrap();
            part.keys().cloned().collect::<Vec<_>>()
        };
        [keys("taken"), keys("listed"), keys("not_taken")]
    };
    assert_eq!(items(&dry.stdout), items(&wet.stdout));
    let written = std::fs::read(place.join("parachron/manifest.json")).unwrap();
    assert_eq!(items(&written), items(&wet.stdout));
    assert!(text(&parachron(&["capture", "--dry-run"]).stdout).contains("Nothing was written."));
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    // No file may grow beyond one block: to a program, a disk that is full.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" capture full";
    let ran = Command::new("/bin/sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_parachron")])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stdout));
    let printed = text(&ran.stderr);
    assert!(printed.contains("parachron: cannot write full/"), "{printed}");
    assert!(printed.contains("the unfinished one was removed"), "{printed}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("no/captured");
    let ran = parachron(&["capture", place.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(2));
    let printed = text(&ran.stderr);
    assert!(printed.contains("No such file or directory"), "{printed}");
    assert!(printed.contains("try: run `mkdir "), "{printed}");

    std::fs::write(folder.path().join("file"), "").unwrap();
    let place = folder.path().join("file/captured");
    let printed = text(&parachron(&["capture", place.to_str().unwrap()]).stderr);
    assert!(printed.contains("try: name a DIR below a folder, not below a file"), "{printed}");
}
