//! `parachron capture`, as a person runs it.

use std::path::Path;
use std::process::{Command, Output};

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
    let ran = parachron(&["capture", place.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let printed = text(&ran.stdout);
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
    assert!(printed.contains("FOLDER` with a folder that does not exist yet"), "{printed}");
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
    assert!(printed.contains("try: name a FOLDER below a folder, not below a file"), "{printed}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let script = "\"$0\" capture --dry-run | true";
    let ran = Command::new("/bin/sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_parachron")])
        .output()
        .unwrap();
    assert_eq!(text(&ran.stderr), "");
}
