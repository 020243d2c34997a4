//! VirtualBox, Hyper-V and emulation.

use facts::Fact;
use facts::Facts;
use facts::cpu::{HypervFeatures, Hypervisor, HypervisorKind};

use crate::testing::{
    could_not, finding_text, fine, healthy_kvm_guest, not_applicable, set_source, unreadable,
};

fn under(kind: HypervisorKind, signature: &str) -> Facts {
    let mut facts = healthy_kvm_guest();
    facts.cpu.hypervisor = Fact::Known(Hypervisor {
        signature: signature.into(),
        kind,
        kvm_features: None,
        hyperv: None,
        xen: None,
    });
    facts
}

fn hyperv(page: bool) -> Option<HypervFeatures> {
    Some(HypervFeatures {
        eax: if page { 0x2e7f } else { 0x2c7f },
        reference_counter: true,
        reference_tsc_page: page,
        frequency_msrs: true,
        reenlightenment: true,
        invariant_tsc: false,
    })
}

#[test]
fn virtualbox_with_each_provider() {
    let mut facts = healthy_kvm_guest();
    facts.system.product = Fact::Known("VirtualBox".into());
    fine(&facts, None, "virtualbox-provider");

    facts.cpu.hypervisor = not_applicable("no hypervisor shows itself");
    insta::assert_snapshot!("provider_none", finding_text(&facts, None, "virtualbox-provider"));

    let mut facts = under(HypervisorKind::VirtualBox, "VBoxVBoxVBox");
    facts.system.product = Fact::Known("VirtualBox".into());
    insta::assert_snapshot!("provider_minimal", finding_text(&facts, None, "virtualbox-provider"));
}

#[test]
fn hyperv_without_its_page() {
    let mut facts = under(HypervisorKind::HyperV, "Microsoft Hv");
    set_source(&mut facts, "acpi_pm", "acpi_pm");
    for (name, page) in [("not_offered", false), ("not_taken", true)] {
        if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
            hypervisor.hyperv = hyperv(page);
        }
        insta::assert_snapshot!(name, finding_text(&facts, None, "hyperv-clock"));
    }
    set_source(&mut facts, "hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page acpi_pm");
    fine(&facts, None, "hyperv-clock");
}

#[test]
fn software_emulation_is_reported() {
    let facts = under(HypervisorKind::Tcg, "TCGTCGTCGTCG");
    insta::assert_snapshot!(finding_text(&facts, None, "software-emulation"));
}

#[test]
fn unknown_hypervisors_and_unknown_facts_are_no_finding() {
    let facts = under(HypervisorKind::Unrecognised, "OhTotallyNew");
    assert_eq!(crate::diagnose(&facts, None).findings, []);
    could_not(&unreadable(), None, "hyperv-clock");
    could_not(&unreadable(), None, "software-emulation");
    let mut facts = unreadable();
    facts.system.product = Fact::Known("VirtualBox".into());
    could_not(&facts, None, "virtualbox-provider");
}
