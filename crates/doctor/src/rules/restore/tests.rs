//! What a restore does, by platform and clock source.

use facts::Facts;
use facts::hardware::VmClock;
use facts::kernel::LogEvent;
use facts::steering::{TimeKeeperKind, chrony_config};
use facts::{Fact, Unknown};

use crate::testing::{
    boot_with, could_not, finding_text, fine, healthy_bare_metal, healthy_firecracker,
    healthy_kvm_guest, keeper, log, missing, tracking, undisciplined, unreadable,
};

fn firecracker_on_tsc() -> Facts {
    let mut facts = healthy_firecracker();
    facts.clocksources.current = Fact::Known("tsc".into());
    facts.phcs = Fact::Known(Vec::new());
    by_ntp(facts)
}

/// chronyd follows NTP servers, and may step at its start alone.
fn by_ntp(mut facts: Facts) -> Facts {
    facts.steering.chrony = Fact::Known(tracking());
    facts.steering.chrony_config = chrony_config::parse("pool pool.ntp.org\nmakestep 1 3\n");
    facts
}

/// The uptime holds the time asleep, the log's clock does not: what was eight
/// days ago by their difference may have been an hour ago.
#[test]
fn after_a_sleep_a_log_line_has_no_known_age() {
    let mut facts = healthy_kvm_guest();
    facts.load.uptime_s = Fact::Known(8.0 * 86_400.0);
    log(&mut facts, 80.0, "crng reseeded due to virtual machine fork", LogEvent::Restored);
    assert!(fine(&facts, None, "pauses-seen").contains("none in the last 24 h"));
    log(&mut facts, 90.0, "PM: suspend exit", LogEvent::Resumed);
    assert!(!fine(&facts, None, "pauses-seen").contains("24 h"));
}

#[test]
fn tsc_on_firecracker_without_ptp() {
    let mut facts = firecracker_on_tsc();
    undisciplined(&mut facts);
    if let Fact::Known(options) = &mut facts.kernel.configuration {
        options.remove("PTP_1588_CLOCK_KVM");
    }
    insta::assert_snapshot!(finding_text(&facts, None, "snapshot-restore"));
}

#[test]
fn tsc_on_firecracker_with_chrony_that_has_no_ptp() {
    insta::assert_snapshot!(finding_text(&firecracker_on_tsc(), None, "snapshot-restore"));
}

#[test]
fn tsc_on_firecracker_with_an_unused_ptp_clock() {
    let mut facts = healthy_firecracker();
    facts.clocksources.current = Fact::Known("tsc".into());
    undisciplined(&mut facts);
    insta::assert_snapshot!(finding_text(&facts, None, "snapshot-restore"));
}

/// A PTP clock corrects nothing while chronyd follows another source, nor one
/// that it follows but may not step by.
#[test]
fn a_restore_is_corrected_only_by_the_clock_followed_and_by_steps() {
    let mut facts = healthy_firecracker();
    facts.clocksources.current = Fact::Known("tsc".into());
    assert_eq!(
        fine(&facts, None, "snapshot-restore"),
        "chronyd follows the host's clock (PHC0) and may step at any time: it corrects a restore"
    );
    let config = "refclock PHC /dev/ptp0 poll 2\nmakestep 1 3\n";
    facts.steering.chrony_config = chrony_config::parse(config);
    let text = finding_text(&facts, None, "snapshot-restore");
    assert!(
        text.contains("its makestep setting allows no step") && !text.contains("refclock"),
        "{text}"
    );
    facts.steering.chrony_config = missing("/etc/chrony/chrony.conf");
    could_not(&facts, None, "snapshot-restore");
    let mut facts = by_ntp(facts);
    let text = finding_text(&facts, None, "snapshot-restore");
    assert!(text.contains("refclock PHC /dev/ptp0"), "{text}");
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::LinuxPtp, true)]);
    could_not(&facts, None, "snapshot-restore");
}

#[test]
fn keep_with_a_source_corrects_a_restore() {
    let mut facts = firecracker_on_tsc();
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::ParachronKeep, true)]);
    let text = fine(&facts, None, "snapshot-restore");
    assert_eq!(text, "parachron keep runs and has a source: it corrects a restore");
    undisciplined(&mut facts);
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::ParachronKeep, true)]);
    assert!(finding_text(&facts, None, "snapshot-restore").contains("this clock is behind"));
}

#[test]
fn a_restore_of_last_week_is_past() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    facts.load.uptime_s = Fact::Known(7.0 * 86_400.0);
    log(&mut facts, 1.0, "random: crng reseeded due to virtual machine fork", LogEvent::Restored);
    let text = fine(&facts, None, "pauses-seen");
    assert!(text.starts_with("none in the last 24 h; restored from a snapshot"), "{text}");
}

#[test]
fn kvm_clock_can_be_carried_on() {
    let mut facts = healthy_firecracker();
    facts.phcs = Fact::Known(Vec::new());
    let until_the_next_boot = finding_text(&facts, None, "snapshot-restore");
    assert!(until_the_next_boot.contains("After the next boot"), "{until_the_next_boot}");
    boot_with(&mut facts, "clocksource=kvm-clock");
    insta::assert_snapshot!(could_not(&facts, None, "snapshot-restore"));
}

#[test]
fn a_restore_seen_elsewhere_counts_too() {
    let mut facts = healthy_kvm_guest();
    undisciplined(&mut facts);
    let text = "random: crng reseeded due to virtual machine fork";
    log(&mut facts, 84_000.0, text, LogEvent::Restored);
    insta::assert_snapshot!("source", finding_text(&facts, None, "snapshot-restore"));
    insta::assert_snapshot!("seen", finding_text(&facts, None, "pauses-seen"));
}

#[test]
fn suspends_of_a_laptop_are_no_finding() {
    let mut facts = healthy_bare_metal();
    log(&mut facts, 3_599.0, "ACPI: PM: Waking up from system sleep", LogEvent::Resumed);
    log(&mut facts, 3_600.0, "PM: suspend exit", LogEvent::Resumed);
    assert_eq!(
        fine(&facts, None, "pauses-seen"),
        "1 suspend; the kernel adds the time spent suspended from the RTC"
    );
    fine(&facts, None, "snapshot-restore");
}

#[test]
fn a_vmclock_that_its_host_does_not_trust() {
    let mut facts = healthy_firecracker();
    let page = |clock_status| {
        Fact::Known(VmClock {
            device: "/dev/vmclock0".into(),
            disruption_marker: 7,
            vm_generation: Some(2),
            clock_status,
        })
    };
    facts.vmclock = page(4);
    insta::assert_snapshot!(finding_text(&facts, None, "vmclock-status"));
    facts.vmclock = page(2);
    assert_eq!(
        fine(&facts, None, "vmclock-status"),
        "/dev/vmclock0: synchronised; it notifies programs of restores and does not set the clock"
    );
    facts.vmclock = Fact::Unknown(Unknown::NeedsRoot { what: "/dev/vmclock0".into() });
    could_not(&facts, None, "vmclock-status");
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "pauses-seen");
    could_not(&unreadable(), None, "snapshot-restore");
    let mut facts = healthy_bare_metal();
    facts.kernel.log = Fact::Unknown(Unknown::NeedsRoot { what: "/dev/kmsg".into() });
    could_not(&facts, None, "snapshot-restore");
    // As nobody in a Firecracker guest whose log, as root reads it, shows a restore.
    facts.system.generation_devices = Fact::Known(vec!["AMZNC10C".into()]);
    let outcome = could_not(&facts, None, "snapshot-restore");
    assert_eq!(outcome, "not readable: /dev/kmsg needs root");
    let mut facts = unreadable();
    facts.system.acpi_oem = Fact::Known("FIRECK".into());
    could_not(&facts, None, "snapshot-restore");
}
