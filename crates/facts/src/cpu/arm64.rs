//! An arm64 processor: its name, and what runs it. There is no CPUID: the
//! firmware's tables and the kernel's log tell.

use super::hypervisor::{Hypervisor, HypervisorKind, Signs, bare};
use super::value;
use crate::{Fact, Unknown};

/// Path of the file: what a hypervisor says in the device tree.
pub const DEVICE_TREE: &str = "/sys/firmware/devicetree/base/hypervisor/compatible";
/// Path of the file: the board's model in the device tree.
pub const BOARD: &str = "/sys/firmware/devicetree/base/model";

/// Makers and parts that run Linux in clouds and on desks (MIDR_EL1;
/// arch/arm64/include/asm/cputype.h).
const PARTS: [(&str, &str, &str); 15] = [
    ("0x00", "0x051", "QEMU max"),
    ("0x41", "0xd03", "ARM Cortex-A53"),
    ("0x41", "0xd07", "ARM Cortex-A57"),
    ("0x41", "0xd08", "ARM Cortex-A72"),
    ("0x41", "0xd0b", "ARM Cortex-A76"),
    ("0x41", "0xd0c", "ARM Neoverse-N1"),
    ("0x41", "0xd40", "ARM Neoverse-V1"),
    ("0x41", "0xd49", "ARM Neoverse-N2"),
    ("0x41", "0xd4f", "ARM Neoverse-V2"),
    ("0x46", "0x001", "Fujitsu A64FX"),
    ("0x48", "0xd01", "HiSilicon TSV110"),
    ("0x61", "0x000", "Apple virtual CPU"),
    ("0x61", "0x022", "Apple M1 Icestorm"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1a"),
];

/// Whether `/proc/cpuinfo` is an arm64 processor's.
pub fn is_arm64(cpuinfo: &str) -> bool {
    value(cpuinfo, "CPU implementer").is_some()
}

/// The first processor's name, by maker and part.
pub(super) fn model(cpuinfo: &str) -> Option<String> {
    let (maker, part) = (value(cpuinfo, "CPU implementer")?, value(cpuinfo, "CPU part")?);
    let known = PARTS.into_iter().find(|(known, number, _)| (*known, *number) == (maker, part));
    Some(match known {
        Some((.., name)) => name.to_owned(),
        None => format!("arm64, implementer {maker}, part {part}"),
    })
}

/// The hypervisor where the kernel's log, the device tree or DMI shows it.
pub(super) fn hypervisor(signs: &Signs<'_>) -> Fact<Hypervisor> {
    use HypervisorKind::{AppleVirtualization, HyperV, Kvm, Parallels, Tcg, Unrecognised, Vmware};
    let dmi = |vendor: &str, product: &str| {
        signs.vendor.is_some_and(|name| name.contains(vendor))
            && signs.product.is_some_and(|name| name.contains(product))
    };
    let tree = signs.device_tree.unwrap_or_default();
    let is_emulated = signs.cpu_model == Some(PARTS[0].2);
    let rows = [
        // drivers/firmware/smccc/kvm_guest.c, by the vendor's UID.
        (signs.smccc_kvm, "SMCCC", Kvm),
        (tree.contains("linux,kvm"), "linux,kvm", Kvm),
        (tree.contains("xen"), "xen", HypervisorKind::Xen),
        (tree.contains("hyperv"), "microsoft,hyperv", HyperV),
        (dmi("Microsoft", "Virtual Machine"), "Microsoft", HyperV),
        (dmi("VMware", ""), "VMware", Vmware),
        (dmi("Parallels", ""), "Parallels", Parallels),
        (dmi("Apple", "Virtual"), "Apple", AppleVirtualization),
        (dmi("Google", ""), "Google", Kvm),
        (dmi("Amazon EC2", "") && !dmi("", "metal"), "Amazon EC2", Kvm),
        (dmi("", "KVM"), "DMI", Kvm),
        // No maker sells that processor: QEMU's `-cpu max`, emulated.
        (is_emulated, PARTS[0].2, Tcg),
        (dmi("QEMU", ""), "QEMU", Unrecognised),
        // The board of virtual machines by QEMU, Firecracker, crosvm and others.
        (signs.board.is_some_and(|board| board.contains("dummy-virt")), "dummy-virt", Unrecognised),
    ];
    match rows.into_iter().find(|(shown, ..)| *shown) {
        Some((_, sign, kind)) => Fact::Known(bare(kind, sign)),
        None => Fact::Unknown(Unknown::not_applicable("no sign of a hypervisor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{parse_model, reduce_cpuinfo};

    const CPUINFO: &str = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd ecv\n\
        CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n\
        CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";

    #[test]
    fn a_processor_is_named_by_maker_and_part() {
        let reduced = reduce_cpuinfo(CPUINFO);
        assert_eq!(
            reduced,
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nprocessor\t: 1\n"
        );
        assert_eq!(reduce_cpuinfo(&reduced), reduced);
        assert_eq!(parse_model(&reduced), Fact::Known("ARM Neoverse-N1".into()));
        let unknown = reduced.replace("0xd0c", "0xfff");
        let name = "arm64, implementer 0x41, part 0xfff";
        assert_eq!(parse_model(&unknown), Fact::Known(name.into()));
        assert!(is_arm64(&reduced) && !is_arm64("vendor_id\t: AuthenticAMD\n"));
    }

    #[test]
    fn log_tree_and_dmi_tell_the_hypervisor() {
        let kind = |signs: Signs<'static>| hypervisor(&signs).value().map(|found| found.kind);
        let none = Signs::default();
        let dmi = |vendor, product| Signs {
            vendor: Some(vendor),
            product: Some(product),
            ..none.clone()
        };
        let cases = [
            (none.clone(), None),
            (Signs { smccc_kvm: true, ..none.clone() }, Some(HypervisorKind::Kvm)),
            (
                Signs { device_tree: Some("xen,xen-4.20"), ..none.clone() },
                Some(HypervisorKind::Xen),
            ),
            (Signs { cpu_model: Some("QEMU max"), ..none.clone() }, Some(HypervisorKind::Tcg)),
            (
                Signs { board: Some("linux,dummy-virt"), ..none.clone() },
                Some(HypervisorKind::Unrecognised),
            ),
            (dmi("Amazon EC2", "m7g.large"), Some(HypervisorKind::Kvm)),
            (dmi("Amazon EC2", "m7g.metal"), None),
            (dmi("Apple Inc.", "Apple Virtualization"), Some(HypervisorKind::AppleVirtualization)),
            (dmi("QEMU", "QEMU Virtual Machine"), Some(HypervisorKind::Unrecognised)),
            (dmi("QEMU", "KVM Virtual Machine"), Some(HypervisorKind::Kvm)),
        ];
        for (signs, expected) in cases {
            assert_eq!(kind(signs.clone()), expected, "{signs:?}");
        }
    }
}
