//! The machine that the tests run on.

use std::io::Write;

use facts::{Fact, Unknown};
use inspect::tree::{ReadOutcome, Tree};

/// Reports it past the test harness, which keeps the output of tests that pass.
fn skipped(why: &Unknown) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[test]
fn a_capture_reads_the_same_as_the_machine() {
    let tree = Tree::live().recording();
    let live = inspect::read(&tree);
    let recording = tree.into_recording();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("machine");
    recording.write(&place, &recording.manifest("test", 1)).unwrap();
    let captured = inspect::read(&Tree::captured(&place).unwrap());
    assert_eq!(captured, live);
    assert!(recording.entries().len() > 20);
}

#[test]
fn what_every_linux_machine_has_is_known() {
    let facts = inspect::read(&Tree::live());
    assert!(facts.kernel.release.value().is_some(), "{:?}", facts.kernel.release);
    assert!(facts.cpu.logical_cpus.is_known_and(|&cpus| cpus > 0));
    assert!(facts.load.uptime_s.is_known_and(|&uptime_s| uptime_s > 0.0));
    assert!(facts.steering.adjtimex.is_known_and(|adjtimex| adjtimex.tick_us > 0));
    assert!(facts.load.steal_since_boot.is_known_and(|steal| (0.0..=1.0).contains(steal)));
}

#[test]
fn nothing_that_the_kernel_says_is_malformed() {
    let tree = Tree::live().recording();
    let facts = serde_json::to_string(&inspect::read(&tree)).unwrap();
    assert!(!facts.contains("\"reason\":\"malformed\""), "{facts}");
    for (path, entry) in tree.into_recording().entries() {
        let malformed = matches!(&entry.outcome, ReadOutcome::Unknown(Unknown::Malformed { .. }));
        assert!(!malformed, "{path}: {entry:?}");
    }
}

#[test]
fn the_kvm_clock_page_is_whole() {
    match inspect::read(&Tree::live()).pvclock_page {
        Fact::Known(page) => {
            assert_eq!(page.version % 2, 0);
            assert_ne!(page.tsc_to_system_mul, 0);
        }
        Fact::Unknown(why) => skipped(&why),
    }
}

#[test]
fn kvm_has_a_clock_where_it_is() {
    match inspect::read(&Tree::live()).kvm_host {
        // The clock counts from the making of the VM, an instant ago.
        Fact::Known(host) => assert!(host.clock_ns < 60_000_000_000, "{host:?}"),
        Fact::Unknown(why) => skipped(&why),
    }
}
