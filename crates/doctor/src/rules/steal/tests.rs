//! Stolen time and stalls.

use facts::Fact;
use facts::cpu::{Hypervisor, HypervisorKind, Xen};
use facts::kernel::LogEvent;

use instruments::measurements::{Measurements, StolenShare};

use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, kvm_features, log,
    measured_tsc, unreadable,
};

#[test]
fn high_steal() {
    let mut facts = healthy_kvm_guest();
    facts.load.steal_since_boot = Fact::Known(0.183);
    insta::assert_snapshot!(finding_text(&facts, None, "steal-time"));
    facts.load.steal_since_boot = Fact::Known(0.03);
    assert!(finding_text(&facts, None, "steal-time").starts_with("Note"));
    fine(&healthy_bare_metal(), None, "steal-time");
}

#[test]
fn steal_is_judged_by_what_is_stolen_now() {
    let mut facts = healthy_kvm_guest();
    let measured =
        |share| Measurements { stolen: Some(StolenShare { share, over_s: 1.5 }), ..measured_tsc() };
    // An hour of 50 % after 30 days.
    facts.load.steal_since_boot = Fact::Known(0.0007);
    insta::assert_snapshot!("now", finding_text(&facts, Some(&measured(0.5)), "steal-time"));
    facts.load.steal_since_boot = Fact::Known(0.183);
    let text = finding_text(&facts, Some(&measured(0.0)), "steal-time");
    assert!(text.starts_with("Note: The host stole 18.3 %"), "{text}");
}

#[test]
fn steal_is_not_reported_where_the_host_has_no_steal_clock() {
    let mut facts = healthy_kvm_guest();
    facts.load.steal_since_boot = Fact::Known(0.0);
    let features = |eax| Some(kvm_features(eax));
    let mut told = |kind, kvm_features| {
        if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
            (hypervisor.kind, hypervisor.kvm_features) = (kind, kvm_features);
        }
        fine(&facts, None, "steal-time")
    };
    use HypervisorKind::{
        AppleVirtualization, HyperV, Kvm, Tcg, Unrecognised, UserModeLinux, VirtualBox, Vmware, Xen,
    };
    assert!(told(Kvm, features(0x0100_0009)).starts_with("not reported here: "));
    // arm64 has no such register.
    assert!(told(Kvm, None).starts_with("not reported here: no stolen time was counted"));
    for kind in [AppleVirtualization, HyperV, Tcg, Unrecognised, UserModeLinux, VirtualBox, Vmware]
    {
        let told = told(kind, None);
        assert!(told.starts_with("not reported here: "), "{kind:?}: {told}");
    }
    assert!(told(Kvm, features(0x0100_7efb)).starts_with("0.00 %"));
    assert!(told(Xen, None).starts_with("0.00 %"));
    for (kind, line) in [
        (Kvm, "arm-pv: using stolen time PV"),
        (Vmware, "vmware: vmware-stealtime: cpu 4, pa 3e667000"),
    ] {
        let mut facts = healthy_kvm_guest();
        facts.load.steal_since_boot = Fact::Known(0.0);
        facts.cpu.hypervisor =
            facts.cpu.hypervisor.map(|found| Hypervisor { kind, kvm_features: None, ..found });
        log(&mut facts, 0.1, line, LogEvent::Other);
        assert!(fine(&facts, None, "steal-time").starts_with("0.00 %"), "{line}");
    }
}

#[test]
fn steal_of_a_boot_just_made_is_a_note() {
    let mut facts = healthy_kvm_guest();
    facts.load.steal_since_boot = Fact::Known(0.38);
    facts.load.uptime_s = Fact::Known(38.8);
    assert!(finding_text(&facts, None, "steal-time").starts_with("Note"));
}

/// As Xen's first domain shows 40 s after its start, with no other guest: all
/// of it is from before the start.
#[test]
fn xen_is_judged_by_what_it_steals_now() {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.kind = HypervisorKind::Xen;
    }
    let measured =
        |share| Measurements { stolen: Some(StolenShare { share, over_s: 1.5 }), ..measured_tsc() };
    facts.load.steal_since_boot = Fact::Known(0.38);
    facts.load.uptime_s = Fact::Known(38.8);
    assert_eq!(
        fine(&facts, None, "steal-time"),
        "38.00 % of CPU time stolen since boot, in which Xen counts the time before the start, \
         and pauses"
    );
    // A pause of hours counts for days.
    facts.load.uptime_s = Fact::Known(86_400.0);
    let text = finding_text(&facts, None, "steal-time");
    assert!(text.starts_with("Note: Xen counts 38.0 %"), "{text}");
    assert!(fine(&facts, Some(&measured(0.0)), "steal-time").starts_with("0.0 % of CPU time"));
    let text = finding_text(&facts, Some(&measured(0.5)), "steal-time");
    assert!(text.starts_with("Warning: Xen counts 50.0 %"), "{text}");
}

/// Xen's control domain is itself the host's operator's.
#[test]
fn dom0_is_given_cpus_by_xens_own_options() {
    let mut facts = healthy_kvm_guest();
    facts.load.steal_since_boot = Fact::Known(0.183);
    if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.kind = HypervisorKind::Xen;
        hypervisor.xen = Some(Xen { mode: None, control_domain: Some(true), tsc: None });
    }
    let text = finding_text(&facts, None, "steal-time");
    assert!(text.contains("dom0_vcpus_pin") && !text.contains("on the host"), "{text}");
}

#[test]
fn a_stall_of_months_ago_is_past() {
    let mut guest = healthy_kvm_guest();
    guest.load.uptime_s = Fact::Known(90.0 * 86_400.0);
    log(&mut guest, 4_711.0, "rcu: INFO: rcu_preempt self-detected stall on CPU", LogEvent::Stall);
    assert!(fine(&guest, None, "stalls").starts_with("none in the last 24 h"));
}

#[test]
fn stalls_in_a_guest_and_on_a_server() {
    let text = "watchdog: BUG: soft lockup - CPU#1 stuck for 67s! [swapper/1:0]";
    let mut guest = healthy_kvm_guest();
    log(&mut guest, 4_711.0, text, LogEvent::Stall);
    log(
        &mut guest,
        4_720.0,
        "hrtimer: interrupt took 250000000 ns",
        LogEvent::HrtimerLate { took_ns: 250_000_000 },
    );
    insta::assert_snapshot!("guest", finding_text(&guest, None, "stalls"));
    let mut server = healthy_bare_metal();
    log(&mut server, 4_711.0, text, LogEvent::Stall);
    insta::assert_snapshot!("server", finding_text(&server, None, "stalls"));
}

#[test]
fn a_short_timer_interrupt_is_no_finding() {
    let mut facts = healthy_kvm_guest();
    let event = LogEvent::HrtimerLate { took_ns: 11_082_175 };
    log(&mut facts, 380.0, "hrtimer: interrupt took 11082175 ns", event);
    assert_eq!(
        fine(&facts, None, "stalls"),
        "longest timer interrupt 11.1 ms, which a busy host explains"
    );
}

#[test]
fn unknown_facts_are_no_finding() {
    could_not(&unreadable(), None, "steal-time");
    could_not(&unreadable(), None, "stalls");
}
