//! Clocks that start in the past.

use facts::Fact;
use facts::kernel::LogEvent;

use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, log, unreadable,
};

const LINE: &str = "rtc_cmos 00:04: setting system clock to 2020-02-29T12:00:01 UTC (1582977601)";

#[test]
fn a_boot_in_2020_under_a_kernel_of_2024() {
    let mut facts = healthy_kvm_guest();
    assert_eq!(
        fine(&facts, None, "clock-before-build"),
        "after the kernel's build, now and at boot"
    );
    log(&mut facts, 1.1, LINE, LogEvent::Rtc { unix_s: None });
    insta::assert_snapshot!("set_since", finding_text(&facts, None, "clock-before-build"));
    facts.load.booted_at_s = Fact::Known(1_582_977_600);
    insta::assert_snapshot!("still_there", finding_text(&facts, None, "clock-before-build"));
    facts.cpu.flags = healthy_bare_metal().cpu.flags;
    facts.cpu.hypervisor = healthy_bare_metal().cpu.hypervisor;
    let text = finding_text(&facts, None, "clock-before-build");
    assert!(!text.contains("hwclock") && !text.contains("QEMU"), "{text}");
    facts.load.booted_at_s = healthy_bare_metal().load.booted_at_s;
    let text = finding_text(&facts, None, "clock-before-build");
    assert!(text.contains("hwclock --systohc"), "confirmed by chronyd's servers: {text}");
    could_not(&unreadable(), None, "clock-before-build");
}
