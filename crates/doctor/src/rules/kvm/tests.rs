//! Guests without kvm-clock, hosts without a stable one.

use facts::Fact;
use facts::Facts;
use facts::kernel::LogEvent;

use crate::testing::{
    boot_with, could_not, finding_text, fine, healthy_bare_metal, healthy_firecracker,
    healthy_kvm_guest, kvm_features, log, measured, missing, set_source, unreadable, use_kvm_clock,
};

fn without_kvm_clock() -> Facts {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "tsc", "tsc hpet acpi_pm");
    facts
}

#[test]
fn the_host_does_not_offer_it() {
    let mut facts = without_kvm_clock();
    if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.kvm_features = Some(kvm_features(0x0000_00a0));
    }
    insta::assert_snapshot!(finding_text(&facts, None, "kvm-clock-missing"));
}

#[test]
fn a_parameter_takes_it_away() {
    let mut facts = without_kvm_clock();
    boot_with(&mut facts, "no-kvmclock");
    insta::assert_snapshot!(finding_text(&facts, None, "kvm-clock-missing"));
}

#[test]
fn the_kernel_was_built_without_it() {
    let mut facts = without_kvm_clock();
    if let Fact::Known(options) = &mut facts.kernel.configuration {
        options.remove("KVM_GUEST");
    }
    insta::assert_snapshot!(finding_text(&facts, None, "kvm-clock-missing"));
}

#[test]
fn it_is_missing_for_an_unknown_reason() {
    let mut facts = without_kvm_clock();
    facts.kernel.configuration = missing("/proc/config.gz");
    insta::assert_snapshot!(finding_text(&facts, None, "kvm-clock-missing"));
}

#[test]
fn the_host_does_not_flag_its_tsc_as_stable() {
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 0);
    insta::assert_snapshot!(finding_text(
        &facts,
        Some(&measured("kvm-clock", 310.0, 1000)),
        "kvm-clock-not-stable"
    ));
    use_kvm_clock(&mut facts, 1);
    fine(&facts, None, "kvm-clock-not-stable");
    facts.pvclock_page = missing("[vvar_vclock]");
    could_not(&facts, None, "kvm-clock-not-stable");
    fine(&facts, Some(&measured("kvm-clock", 27.0, 0)), "kvm-clock-not-stable");
}

#[test]
fn a_host_that_cannot_give_a_stable_clock() {
    let mut facts = healthy_bare_metal();
    set_source(&mut facts, "hpet", "tsc hpet acpi_pm");
    if let Fact::Known(host) = &mut facts.kvm_host {
        host.flags = 0xc;
    }
    insta::assert_snapshot!("switch", finding_text(&facts, None, "kvm-host-clock"));
    let event = LogEvent::MarkedUnstable {
        clocksource: "tsc".into(),
        because: "check_tsc_sync_source failed".into(),
    };
    log(&mut facts, 0.4, "tsc: Marking TSC unstable due to check_tsc_sync_source failed", event);
    insta::assert_snapshot!("tsc_at_fault", finding_text(&facts, None, "kvm-host-clock"));
}

#[test]
fn a_host_that_is_itself_restored_from_snapshots_has_to_weigh_it() {
    let mut facts = healthy_firecracker();
    facts.kvm_host = healthy_bare_metal().kvm_host;
    if let Fact::Known(host) = &mut facts.kvm_host {
        host.flags = 0;
    }
    insta::assert_snapshot!("nested", finding_text(&facts, None, "kvm-host-clock"));
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "kvm-clock-missing");
    could_not(&unreadable(), None, "kvm-clock-not-stable");
    let mut facts = healthy_bare_metal();
    facts.kvm_host = Fact::Unknown(facts::Unknown::NeedsRoot { what: "/dev/kvm".into() });
    could_not(&facts, None, "kvm-host-clock");
    fine(&healthy_bare_metal(), None, "kvm-clock-missing");
}

/// The line of arch/x86/kvm/x86.c is enough where /dev/kvm may not be opened.
#[test]
fn the_hosts_own_log_shows_that_its_guests_have_no_master_clock() {
    let mut facts = crate::testing::healthy_bare_metal();
    facts.kvm_host = facts::Fact::Unknown(facts::Unknown::NeedsRoot { what: "/dev/kvm".into() });
    let line = "kvm: SMP vm created on host with unstable TSC; guest TSC will not be reliable";
    facts.kernel.log = facts::kernel::parse_log(line);
    let text = finding_text(&facts, None, "kvm-host-clock");
    assert!(text.contains("Guests of this KVM host get no stable kvm-clock"), "{text}");
    assert!(text.contains(line), "{text}");
    facts.kvm_host = crate::testing::missing("/dev/kvm");
    facts.idle.halt_poll_ns = crate::testing::missing("halt_poll_ns");
    crate::testing::could_not(&facts, None, "host-halt-polling");
}
