//! A TSC that the kernel gave up in a virtual machine: what to do is the host's, and no
//! firmware's.

use facts::cpu::HypervisorKind;
use facts::{Fact, Facts};

use super::{RULE, fallen_back, marked};
use crate::testing::{finding_text, fine, healthy_kvm_guest, set_source, use_kvm_clock};

/// Several CPUs without constant_tsc, as Linux up to 6.1 gives their TSC up
/// (arch/x86/kernel/tsc.c, `unsynchronized_tsc`).
fn unsynchronized(mut facts: Facts) -> Facts {
    if let Fact::Known(flags) = &mut facts.cpu.flags {
        (flags.constant_tsc, flags.nonstop_tsc) = (false, false);
    }
    marked(&mut facts, "TSCs unsynchronized");
    facts
}

fn emulated() -> Facts {
    let mut facts = healthy_kvm_guest();
    if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.signature = "TCGTCGTCGTCG".into();
        (hypervisor.kind, hypervisor.kvm_features) = (HypervisorKind::Tcg, None);
    }
    facts
}

#[test]
fn a_guests_cpu_model_is_the_hosts_to_change() {
    for mut facts in [healthy_kvm_guest(), emulated()] {
        set_source(&mut facts, "hpet", "hpet acpi_pm");
        let text = finding_text(&unsynchronized(facts), None, RULE);
        assert!(text.contains("its CPUs' counters may disagree"), "{text}");
        assert!(text.contains("CPU flags: constant_tsc no, nonstop_tsc no"), "{text}");
        assert!(
            text.contains(
                "> Give the guest a CPU model whose TSC has a constant rate, on the host"
            ),
            "{text}"
        );
        assert!(text.contains("emulation, TCG, has none). Do not force tsc."), "{text}");
        assert!(!text.contains("firmware"), "{text}");
    }
    let server = finding_text(&unsynchronized(fallen_back()), None, RULE);
    assert!(server.contains("> Update the firmware; do not force tsc."), "{server}");
    assert!(!server.contains("on the host"), "{server}");
}

/// The hypervisor's page stands in: nothing to do.
#[test]
fn on_kvm_clock_it_is_normal() {
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 1);
    let outcome = fine(&unsynchronized(facts), None, RULE);
    assert_eq!(outcome, "normal without constant_tsc; the clock source is the hypervisor's page");
}
