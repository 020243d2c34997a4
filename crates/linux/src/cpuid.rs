//! CPUID as Xen answers it.
//!
//! # Invariants
//! 1. The instructions change eax, ebx, ecx and edx alone, and rbx is put back.
#![allow(unsafe_code)]

use core::arch::x86_64::CpuidResult;

/// A leaf (sub-leaf 0) as Xen answers it in a paravirtual guest, where the
/// plain instruction reaches the bare processor: Xen emulates CPUID after a
/// prefix (xen/include/public/arch-x86/xen.h, XEN_EMULATE_PREFIX).
///
/// Elsewhere the prefix is an invalid instruction, which ends the process with
/// SIGILL: look first whether /sys/hypervisor/guest_type is `PV`.
pub fn as_xen_shows(leaf: u32) -> CpuidResult {
    let (eax, ebx, ecx, edx);
    // SAFETY: invariant 1.
    unsafe {
        core::arch::asm!(
            "mov {kept:r}, rbx",
            "ud2",
            ".byte 0x78, 0x65, 0x6e",
            "cpuid",
            "xchg {kept:r}, rbx",
            kept = out(reg) ebx,
            inout("eax") leaf => eax,
            inout("ecx") 0 => ecx,
            out("edx") edx,
            options(nostack, preserves_flags),
        );
    }
    let _: u64 = ebx;
    CpuidResult { eax, ebx: ebx as u32, ecx, edx }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paravirtual_guest_sees_xen() {
        let guest_type = std::fs::read_to_string("/sys/hypervisor/guest_type");
        if guest_type.is_ok_and(|word| word.trim() == "PV") {
            // "XenV"
            assert_eq!(as_xen_shows(0x4000_0000).ebx, 0x566e_6558);
        } else {
            crate::cpus::skipped("no paravirtual guest of Xen");
        }
    }
}
