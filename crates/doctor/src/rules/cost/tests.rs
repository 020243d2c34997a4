//! Slow and backward readings.

use facts::Fact;
use facts::cpu::{Hypervisor, HypervisorKind};
use facts::steering::TimeKeeperKind;
use instruments::measurements::ReadPath;

use crate::testing::{
    boot_with, could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, keeper,
    measured, measured_tsc, set_source, use_kvm_clock,
};

#[test]
fn tsc_read_through_the_kernel() {
    let facts = healthy_kvm_guest();
    insta::assert_snapshot!(finding_text(
        &facts,
        Some(&measured("tsc", 240.0, 1000)),
        "reads-enter-kernel"
    ));
}

#[test]
fn a_parameter_that_closes_the_page_is_named() {
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 1);
    boot_with(&mut facts, "no-kvmclock-vsyscall");
    let measured = measured("kvm-clock", 260.0, 1000);
    fine(&facts, Some(&measured), "reads-enter-kernel");
    fine(&facts, Some(&measured), "kvm-clock-not-stable");
    insta::assert_snapshot!(finding_text(&facts, Some(&measured), "harmful-parameters"));
}

#[test]
fn a_trapped_tsc() {
    let mut measured = measured_tsc();
    measured.costs[0].ns.min = 1_900.0;
    measured.costs[0].ns.median = 2_040.0;
    measured.costs[0].ns.p99 = 2_600.0;
    insta::assert_snapshot!(finding_text(&healthy_kvm_guest(), Some(&measured), "tsc-trapped"));
    // One cause, one finding.
    fine(&healthy_kvm_guest(), Some(&measured), "read-cost");
}

#[test]
fn a_reading_far_above_its_sources_norm() {
    let mut measured = measured("tsc", 340.0, 0);
    measured.costs[0].ns.median = 120.0;
    insta::assert_snapshot!(finding_text(&healthy_bare_metal(), Some(&measured), "read-cost"));
    // Every instruction is slow there, and another rule says so.
    let mut emulated = healthy_kvm_guest();
    if let facts::Fact::Known(hypervisor) = &mut emulated.cpu.hypervisor {
        hypervisor.kind = facts::cpu::HypervisorKind::Tcg;
    }
    set_source(&mut emulated, "tsc", "tsc");
    assert!(
        fine(&emulated, Some(&measured), "read-cost")
            .contains("see the finding software-emulation")
    );
}

#[test]
fn a_clock_that_went_backward() {
    let mut measured = measured_tsc();
    measured.order[0].backward = 3;
    measured.order[0].largest_backward_ns = 812.0;
    insta::assert_snapshot!(finding_text(&healthy_kvm_guest(), Some(&measured), "clock-order"));
}

/// hv_utils steps the time of day, which no other clock shows.
#[test]
fn a_time_of_day_that_the_host_steps_back_is_hyper_vs() {
    let mut facts = healthy_kvm_guest();
    facts.steering.keepers = Fact::Known(vec![keeper(TimeKeeperKind::HypervUtils, true)]);
    for (clock, unbinds) in [("CLOCK_REALTIME", true), ("CLOCK_MONOTONIC", false)] {
        let mut measured = measured_tsc();
        measured.order[0].backward = 3;
        measured.order[0].clock = clock.into();
        let text = finding_text(&facts, Some(&measured), "clock-order");
        assert_eq!(text.contains("hv_utils/unbind"), unbinds, "{text}");
    }
}

#[test]
fn without_measurements_costs_are_not_checked() {
    for rule in ["reads-enter-kernel", "tsc-trapped", "read-cost", "clock-order"] {
        assert_eq!(could_not(&healthy_kvm_guest(), None, rule), "not measured in this run");
        let empty = Default::default();
        could_not(&healthy_kvm_guest(), Some(&empty), rule);
    }
}

#[test]
fn an_uncounted_path_is_not_taken_for_a_system_call() {
    let mut measured = measured_tsc();
    measured.costs[1].path = ReadPath::NotCounted;
    fine(&healthy_kvm_guest(), Some(&measured), "reads-enter-kernel");
}

/// A guest of Xen whose TSC Xen emulates.
fn emulated_by_xen(control_domain: bool) -> facts::Facts {
    use facts::cpu::{HypervisorKind, Xen, XenMode, XenTsc};
    let mut facts = healthy_kvm_guest();
    if let facts::Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.kind = HypervisorKind::Xen;
        hypervisor.xen = Some(Xen {
            mode: Some(XenMode::Pvh),
            control_domain: Some(control_domain),
            tsc: Some(XenTsc { emulated: true, host_reliable: false, mode: 0 }),
        });
    }
    facts
}

#[test]
fn xen_says_itself_that_it_emulates_the_tsc() {
    let mut guest = emulated_by_xen(false);
    let text = finding_text(&guest, None, "tsc-trapped");
    assert!(text.contains("Give Xen's host an invariant TSC"), "{text}");
    // One finding for one cause: no second one about the clock source that reads it.
    crate::testing::set_source(&mut guest, "xen", "xen");
    let slow = measured("xen", 45_500.0, 1000);
    for rule in ["slow-clocksource", "reads-enter-kernel"] {
        let outcome = fine(&guest, Some(&slow), rule);
        assert!(outcome.ends_with("see the finding tsc-trapped"), "{rule}: {outcome}");
    }
    if let facts::Fact::Known(hypervisor) = &mut guest.cpu.hypervisor
        && let Some(tsc) = hypervisor.xen.as_mut().and_then(|xen| xen.tsc.as_mut())
    {
        tsc.host_reliable = true;
    }
    let text = finding_text(&guest, None, "tsc-trapped");
    assert!(text.contains("tsc_mode=\"native\" in the domain's configuration"), "{text}");
    let text = finding_text(&emulated_by_xen(true), None, "tsc-trapped");
    assert!(text.contains("Give Xen an invariant TSC"), "{text}");
    fine(&emulated_by_xen(true), None, "tsc-not-constant");
}

#[test]
fn a_read_that_another_rule_explains_is_not_called_usual() {
    let mut facts = healthy_kvm_guest();
    crate::testing::boot_with(&mut facts, "vdso=0");
    let slow = measured("tsc", 740.0, 1000);
    for rule in ["read-cost", "slow-clocksource"] {
        let outcome = fine(&facts, Some(&slow), rule);
        assert!(!outcome.contains("usual") && outcome.contains("see the finding"), "{outcome}");
    }
}

#[test]
fn a_cost_under_software_emulation_is_that_of_the_emulation() {
    let mut facts = healthy_kvm_guest();
    facts.cpu.hypervisor = Fact::Known(Hypervisor {
        signature: "TCGTCGTCGTCG".into(),
        kind: HypervisorKind::Tcg,
        kvm_features: None,
        hyperv: None,
        xen: None,
    });
    let measured = measured("tsc", 240.0, 0);
    assert!(finding_text(&healthy_kvm_guest(), Some(&measured), "read-cost").contains("240 ns"));
    fine(&facts, Some(&measured), "read-cost");
}

#[test]
fn a_clock_that_never_moved_is_not_in_order() {
    let mut measured = crate::testing::measured_tsc();
    measured.order.push(instruments::measurements::Order {
        clock: "CLOCK_MONOTONIC".into(),
        readings: 40_000,
        backward: 0,
        largest_backward_ns: 0.0,
    });
    measured.granularity.push(instruments::measurements::Granularity {
        clock: "CLOCK_MONOTONIC".into(),
        smallest_step_ns: None,
        claimed_ns: Some(1),
    });
    let text = finding_text(&healthy_kvm_guest(), Some(&measured), "clock-order");
    assert!(text.starts_with("Error: CLOCK_MONOTONIC stands still"), "{text}");
}
