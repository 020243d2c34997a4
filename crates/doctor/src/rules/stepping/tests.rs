//! Steps that chronyd may not take.

use facts::Fact;
use facts::kernel::LogEvent;
use facts::steering::chrony_config;

use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, log, unreadable,
};

#[test]
fn a_restore_under_makestep_1_3() {
    let mut facts = healthy_kvm_guest();
    log(
        &mut facts,
        84_000.0,
        "random: crng reseeded due to virtual machine fork",
        LogEvent::Restored,
    );
    insta::assert_snapshot!(finding_text(&facts, None, "makestep-limited"));
    facts.steering.chrony_config = chrony_config::parse("makestep 0.5 -1\n");
    assert_eq!(
        fine(&facts, None, "makestep-limited"),
        "chronyd steps offsets above 0.5 s at any time"
    );
}

#[test]
fn a_machine_that_can_be_restored_is_worth_a_note() {
    let mut facts = healthy_kvm_guest();
    facts.system.generation_devices = Fact::Known(vec!["QEMUVGID".into()]);
    let text = finding_text(&facts, None, "makestep-limited");
    assert!(text.starts_with("Note") && text.contains("ACPI device QEMUVGID"), "{text}");
    facts.system.generation_devices = Fact::Known(Vec::new());
    facts.system.vendor = Fact::Known("Microsoft Corporation".into());
    facts.system.product = Fact::Known("Virtual Machine".into());
    let hyper_v = finding_text(&facts, None, "makestep-limited");
    assert!(hyper_v.contains("Hyper-V can pause or move") && !hyper_v.contains("Azure"));
    for never in ["", "makestep 1 0\n", "makestep\n"] {
        facts.steering.chrony_config = chrony_config::parse(never);
        let text = finding_text(&facts, None, "makestep-limited");
        assert!(text.contains("chronyd may never step this clock, and"), "{text}");
    }
    facts.steering.chrony_config = unreadable().steering.chrony_config;
    could_not(&facts, None, "makestep-limited");
}

#[test]
fn a_laptop_that_sleeps_is_set_by_its_kernel() {
    let mut facts = healthy_bare_metal();
    log(&mut facts, 84_000.0, "PM: suspend exit", LogEvent::Resumed);
    could_not(&unreadable(), None, "makestep-limited");
    assert!(fine(&facts, None, "makestep-limited").contains("does not apply"));
}
