//! What is advised to keep a clock, and that it clears what it was advised for.

use facts::hardware::VmClock;
use facts::kernel::LogEvent;
use facts::steering::{TimeKeeper, TimeKeeperKind, chrony_config};
use facts::{Fact, Facts};

use super::*;
use crate::testing::{
    finding_text, fine, healthy_firecracker, healthy_kvm_guest, keeper, log, undisciplined,
};

/// A Firecracker guest beside chronyd: no RTC, no PTP clock, on Linux 6.1; its log shows
/// a restore.
fn firecracker() -> Facts {
    let mut facts = healthy_firecracker();
    facts.clocksources.current = Fact::Known("tsc".into());
    facts.phcs = Fact::Known(Vec::new());
    facts.steering.chrony_config = chrony_config::parse("pool pool.ntp.org\nmakestep 1 3\n");
    facts
}

fn page(clock_status: u8) -> Fact<VmClock> {
    let device = "/dev/vmclock0".into();
    Fact::Known(VmClock { device, disruption_marker: 1, vm_generation: None, clock_status })
}

fn advised(facts: &Facts) -> (String, String, String) {
    let Remedy { what, command, changes, .. } = keep(&Case::new(facts, None));
    (what, command.unwrap_or_default(), changes.unwrap_or_default())
}

/// With servers alone it corrects no sooner than something shows the restore, and the
/// service sees less than root does.
#[test]
fn what_is_promised_is_what_this_machine_shows() {
    type Change = fn(&mut Facts);
    let device: Change = |facts| {
        facts.system.generation_devices = Fact::Known(vec!["FCVMGID".into()]);
    };
    let (needs_servers, by_itself) = (true, false);
    let cases: [(&[Change], bool, &str); 7] = [
        (&[], needs_servers, "at its next poll, up to 64 s later."),
        (&[device], needs_servers, "at its next poll, up to 64 s later."),
        (
            &[device, |facts| facts.kernel.release = Fact::Known("6.10.0".into())],
            needs_servers,
            "within a second of a server's first reply after each restore.",
        ),
        (&[|facts| facts.vmclock = page(0)], needs_servers, "first reply after each restore."),
        (
            &[|facts| facts.rtc = healthy_kvm_guest().rtc],
            needs_servers,
            "within a second of a server's first reply after each pause and restore.",
        ),
        (
            &[|facts| facts.vmclock = page(2)],
            by_itself,
            "the clock within a second of each pause and restore.",
        ),
        (
            &[|facts| facts.phcs = healthy_firecracker().phcs],
            by_itself,
            "the clock within a second of each pause and restore.",
        ),
    ];
    for (index, (changes, needs_servers, promised)) in cases.into_iter().enumerate() {
        let mut facts = firecracker();
        changes.iter().for_each(|change| change(&mut facts));
        let (what, command, _) = advised(&facts);
        assert!(what.ends_with(promised), "{index}: {what}");
        assert_eq!(command.contains("--ntp ADDRESS"), needs_servers, "{index}: {command}");
    }
}

/// docs/guide/keep.md, "With chrony": plain, and by itself beside chronyd.
#[test]
fn beside_chronyd_it_is_not_chronyd_that_steps() {
    let mut facts = firecracker();
    let (_, command, changes) = advised(&facts);
    assert!(!command.contains("makestep"), "{command}");
    let whose = "; chronyd still controls the frequency, parachron only steps the clock";
    assert!(changes.ends_with(whose), "{changes}");
    undisciplined(&mut facts);
    assert!(!advised(&facts).2.contains("chronyd"));
}

#[test]
fn where_it_is_installed_the_service_is_started() {
    let mut facts = healthy_firecracker();
    let installed = keeper(TimeKeeperKind::ParachronKeep, false);
    facts.steering.keepers =
        Fact::Known(vec![keeper(TimeKeeperKind::Chrony, true), installed.clone()]);
    let (_, command, changes) = advised(&facts);
    assert_eq!(command, "sudo systemctl enable --now parachrond");
    assert!(changes.starts_with("the time of day, from now on and after a reboot; chronyd"));
    // Servers have to be named in its file, which it reads at its start.
    facts.phcs = Fact::Known(Vec::new());
    let (_, command, _) = advised(&facts);
    assert!(command.starts_with("echo 'ntp = [\"ADDRESS\", \"ANOTHER\"]' | sudo tee -a"));
    assert!(command.ends_with("enable parachrond && sudo systemctl restart parachrond"));
    // A process of that name alone is no package.
    facts.steering.keepers = Fact::Known(vec![TimeKeeper { installed: false, ..installed }]);
    assert!(advised(&facts).1.starts_with("sudo parachron keep --ntp"));
    facts.system.container = Fact::Known("docker".into());
    assert_eq!(keep(&Case::new(&facts, None)).command, None);
}

/// Advice that leaves its finding would be followed again and again.
#[test]
fn once_it_is_followed_beside_chronyd_nothing_is_found() {
    let mut facts = firecracker();
    log(&mut facts, 84_000.0, "crng reseeded due to virtual machine fork", LogEvent::Restored);
    for rule in ["snapshot-restore", "makestep-limited"] {
        assert!(finding_text(&facts, None, rule).contains("parachron keep"), "{rule}");
    }
    let keep = TimeKeeper { installed: false, ..keeper(TimeKeeperKind::ParachronKeep, true) };
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::Chrony, true), keep]);
    for rule in ["snapshot-restore", "makestep-limited", "one-daemon", "clock-steered"] {
        fine(&facts, None, rule);
    }
    undisciplined(&mut facts);
    let without_source = [TimeKeeperKind::Chrony, TimeKeeperKind::ParachronKeep];
    facts.steering.keepers = Fact::Known(without_source.map(|kind| keeper(kind, true)).to_vec());
    finding_text(&facts, None, "makestep-limited");
}
