//! What a restore does, by platform and clock source.

use facts::Facts;
use facts::hardware::VmClock;
use facts::kernel::LogEvent;
use facts::{Fact, Unknown};

use crate::testing::{
    could_not, finding_text, fine, gone, healthy_bare_metal, healthy_firecracker,
    healthy_kvm_guest, log, undisciplined, unreadable,
};

fn firecracker_on_tsc() -> Facts {
    let mut facts = healthy_firecracker();
    facts.clocksources.current = Fact::Known("tsc".into());
    facts.phcs = Fact::Known(Vec::new());
    facts
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

#[test]
fn kvm_clock_can_be_carried_on() {
    let mut facts = healthy_firecracker();
    facts.phcs = Fact::Known(Vec::new());
    insta::assert_snapshot!(fine(&facts, None, "snapshot-restore"));
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
    log(&mut facts, 3_600.0, "PM: suspend exit", LogEvent::Resumed);
    assert_eq!(
        fine(&facts, None, "pauses-seen"),
        "1 suspend; the kernel adds the suspended time from the RTC"
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
        "/dev/vmclock0: synchronised; it informs programs of restores, and sets no clock"
    );
    facts.vmclock = Fact::Unknown(Unknown::NeedsRoot { what: "/dev/vmclock0".into() });
    could_not(&facts, None, "vmclock-status");
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "pauses-seen");
    could_not(&unreadable(), None, "snapshot-restore");
    let mut facts = healthy_bare_metal();
    facts.kernel.log = gone("kernel log");
    fine(&facts, None, "snapshot-restore");
    let mut facts = unreadable();
    facts.system.acpi_oem = Fact::Known("FIRECK".into());
    could_not(&facts, None, "snapshot-restore");
}
