use super::*;

/// QEMU's emulation, as a PV guest of Xen on it sees.
const TCG: &str = "0x00000001 0x00: eax=0x00800f12 ebx=0x0 ecx=0xfed8320b edx=0x0\n\
    0x40000000 0x00: eax=0x40000001 ebx=0x54474354 ecx=0x43544743 edx=0x47435447\n";

const XEN_LEAVES: &str = "0x00000001 0x00: eax=0x00800f12 ebx=0x0 ecx=0xfed8320b edx=0x0\n\
    0x40000000 0x00: eax=0x40000005 ebx=0x566e6558 ecx=0x65584d4d edx=0x4d4d566e\n\
    0x40000003 0x00: eax=0x00000001 ebx=0x00000000 ecx=0x0023181c edx=0x1\n";

fn found(cpuid_text: &str, signs: &Signs<'_>) -> Hypervisor {
    let by_cpuid = cpuid::parse_hypervisor(cpuid_text);
    crate::cpu::resolve_hypervisor(by_cpuid, cpuid_text, signs).value().unwrap().clone()
}

#[test]
fn a_pv_guest_of_xen_is_seen_above_what_cpuid_shows() {
    let by_log = Signs { detected: Some("Xen PV"), product: Some("PC"), ..Signs::default() };
    let by_sys =
        Signs { sys_type: Some("xen"), guest_type: Some("PV"), uuid: Some("0\n"), ..by_log };
    for signs in [Signs { detected: None, ..by_sys.clone() }, by_sys, by_log] {
        let seen = found(TCG, &signs);
        assert_eq!((seen.kind, seen.signature.as_str()), (HypervisorKind::Xen, "XenVMMXenVMM"));
        let xen = Xen { mode: Some(XenMode::Pv), control_domain: Some(true), tsc: None };
        assert_eq!(seen.xen, Some(xen), "{signs:?}");
    }
    assert_eq!(found(TCG, &Signs::default()).kind, HypervisorKind::Tcg);
}

#[test]
fn the_domains_of_xen_are_told_apart() {
    let control = |signs: &Signs<'_>| found(XEN_LEAVES, signs).xen.unwrap().control_domain;
    let signs = |guest_type| Signs { guest_type: Some(guest_type), ..Signs::default() };
    assert_eq!(control(&signs("PV")), Some(false));
    assert_eq!(control(&Signs { uuid: Some("withheld"), ..signs("PVH") }), Some(false));
    assert_eq!(control(&Signs { uuid: Some("0"), ..signs("PVH") }), Some(true));
    assert_eq!(control(&Signs { capabilities: Some("control_d\n"), ..signs("PVH") }), Some(true));
    assert_eq!(control(&signs("PVH")), None);
    let hvm = Signs { product: Some("HVM domU"), ..Signs::default() };
    assert_eq!(found(XEN_LEAVES, &hvm).xen.unwrap().mode, Some(XenMode::Hvm));
    // PVH's control domain as a log and DMI show it.
    let pvh = Signs { product: Some("PC"), detected: Some("Xen HVM"), ..Signs::default() };
    let xen = found(XEN_LEAVES, &pvh).xen.unwrap();
    assert_eq!((xen.mode, xen.control_domain), (Some(XenMode::Pvh), Some(true)));
    let tsc = found(XEN_LEAVES, &hvm).xen.unwrap().tsc;
    assert_eq!(tsc, Some(XenTsc { emulated: true, host_reliable: false, mode: 0 }));
}

#[test]
fn user_mode_linux_is_no_guest_of_the_outer_machines_hypervisor() {
    let signs = Signs { cpu_vendor: Some("User Mode Linux"), ..Signs::default() };
    let seen = found(TCG, &signs);
    assert_eq!((seen.kind, seen.kvm_features), (HypervisorKind::UserModeLinux, None));
    assert!(tsc_hz(&Fact::Known(seen), &Fact::Known(TCG.into())).unknown().is_some());
}

#[test]
fn a_domains_identity_is_withheld() {
    assert_eq!(reduce_uuid("00000000-0000-0000-0000-000000000000\n"), "0\n");
    assert_eq!(reduce_uuid("c0ffee00-0000-0000-0000-000000000001"), "withheld\n");
    for kept in ["0\n", "withheld\n"] {
        assert_eq!(reduce_uuid(kept), kept);
    }
    assert_eq!(reduce_uuid(""), "withheld\n");
}
