//! Captures that are of two machines, half there, of an older version, or made to mislead:
//! reported, and no ground for a finding.

use std::fs;

use doctor::finding::{Diagnosis, TimeState};

use crate::trees::{copy_of, diagnosis_of, text_of};

/// A tree with these files in the place of its own; `None` removes one.
fn with(tree: &str, files: &[(&str, Option<&str>)]) -> Diagnosis {
    let copy = copy_of(tree);
    let _ = fs::remove_file(copy.path().join("parachron/manifest.json"));
    for (file, text) in files {
        let path = copy.path().join(file);
        match text {
            Some(text) => {
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(path, text).expect("a file");
            }
            None if path.is_dir() => fs::remove_dir_all(path).expect("a folder"),
            None => fs::remove_file(path).expect("a file"),
        }
    }
    diagnosis_of(copy.path())
}

fn found(diagnosis: &Diagnosis, rule: &str) -> bool {
    diagnosis.findings.iter().any(|finding| finding.rule == rule)
}

#[test]
fn facts_of_another_machine_are_reported() {
    let other = text_of("healthy-bare-metal", "proc/cpuinfo");
    let mixed = with("healthy-kvm-guest", &[("proc/cpuinfo", other.as_deref())]);
    assert!(found(&mixed, "facts-agree"), "{}", mixed.verdict);
}

#[test]
fn half_a_capture_is_no_all_clear() {
    let half = with(
        "restored-chrony-by-ntp",
        &[("sys", None), ("proc/cpuinfo", None), ("parachron/chrony-tracking", None)],
    );
    assert_eq!(half.time.state, TimeState::NotKnown, "{}", half.verdict);
    assert!(!found(&half, "rtc-missing") && !found(&half, "clock-sources-readable"));
}

/// What later versions ask for is unknown, and changes no severity.
#[test]
fn an_older_versions_capture_accuses_nobody_new() {
    let new = ["boot-files", "unit-conditions", "offset-readers", "generation-devices"];
    for tree in ["debian-12-packages", "kvm-7.2", "debian-13-packages"] {
        let gone: Vec<_> = new.iter().map(|name| format!("parachron/{name}")).collect();
        let gone: Vec<_> = gone
            .iter()
            .filter(|path| text_of(tree, path).is_some())
            .map(|path| (path.as_str(), None))
            .collect();
        assert!(!gone.is_empty(), "{tree}");
        let (before, after) = (with(tree, &[]), with(tree, &gone));
        let new = after.findings.iter().find(|finding| !found(&before, &finding.rule));
        assert!(new.is_none(), "{tree}: {new:?}");
    }
}

#[test]
fn what_misleads_is_not_believed() {
    // A tracking report of a chronyd that does not run.
    let tracking = text_of("healthy-kvm-guest", "parachron/chrony-tracking");
    let stale = with(
        "healthy-kvm-guest",
        &[
            ("parachron/chrony-tracking", tracking.as_deref()),
            ("parachron/time-keepers", Some("chrony installed\n")),
        ],
    );
    assert_ne!(stale.time.state, TimeState::Right, "{}", stale.verdict);
    let absurd = with(
        "healthy-kvm-guest",
        &[(
            "parachron/chrony-tracking",
            Some("withheld,withheld,3,1,0.0,0.0,0.0,0.0,0.0,0.0,inf,0.001,1.0,Normal\n"),
        )],
    );
    assert_ne!(absurd.time.state, TimeState::Right, "{}", absurd.verdict);
    let escapes = with(
        "healthy-kvm-guest",
        &[
            ("etc/os-release", Some("ID=debian\nPRETTY_NAME=\"\u{1b}[2J All is well\"\n")),
            ("etc/chrony.conf", Some("server a prefer\u{1b}[31m\nmakestep x\n")),
            ("parachron/adjtimex", Some("status 64\nmaxerror \u{1b}[1m\n")),
        ],
    );
    let report = serde_json::to_string(&(&escapes.verdict, &escapes.findings)).expect("JSON");
    assert!(!report.contains("\\u001b"), "{report}");
}
