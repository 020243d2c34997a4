//! The guest's CPUID.

use host::{GuestClock, Kind, Leaf, VcpuId};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm, VcpuFd};

use crate::error::MachineError;
use crate::host_clock;
use crate::settings::Backend;

/// The hypervisors' leaves.
const PARAVIRTUAL: std::ops::Range<u32> = 0x4000_0000..0x4001_0000;
/// CPUID 1, ECX: a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;
/// CPUID 1, ECX: the local APIC's timer takes a TSC deadline.
const TSC_DEADLINE: u32 = 1 << 24;

/// The hypervisor's leaves to use in place of KVM's own, if any: the provider's,
/// or those that enable the kernel's Hyper-V clock (arch/x86/kvm/hyperv.c
/// implements what the leaves offer).
pub(crate) fn leaves(
    kvm: &Kvm,
    backend: &Backend,
    host: Option<&GuestClock>,
) -> Result<Option<Vec<(u32, Leaf)>>, MachineError> {
    if let Some(host) = host {
        return Ok(Some(host.cpuid_leaves().collect()));
    }
    if *backend != Backend::KernelHyperV {
        return Ok(None);
    }
    if !kvm.check_extension(Cap::HypervTime) {
        return Err(MachineError::Unsupported { what: "KVM_CAP_HYPERV_TIME" });
    }
    let settings = host::Settings::new(Kind::HyperV, super::host_tsc()?);
    Ok(Some(GuestClock::new(settings, host_clock::read())?.cpuid_leaves().collect()))
}

/// What KVM supports, with the provider's `leaves` in place of KVM's own, or
/// with KVM's where there is no provider.
pub(super) fn set(
    kvm: &Kvm,
    fd: &VcpuFd,
    vcpu: VcpuId,
    leaves: Option<&[(u32, Leaf)]>,
) -> Result<(), MachineError> {
    let supported = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(MachineError::kvm("KVM_GET_SUPPORTED_CPUID"))?;
    let mut entries: Vec<kvm_cpuid_entry2> = supported
        .as_slice()
        .iter()
        .filter(|entry| leaves.is_none() || !PARAVIRTUAL.contains(&entry.function))
        .copied()
        .collect();
    for (function, leaf) in leaves.unwrap_or_default() {
        entries.push(kvm_cpuid_entry2 {
            function: *function,
            eax: leaf.eax,
            ebx: leaf.ebx,
            ecx: leaf.ecx,
            edx: leaf.edx,
            ..Default::default()
        });
    }
    let hidden = leaves.is_some_and(<[_]>::is_empty);
    for entry in entries.iter_mut().filter(|entry| entry.function == 1) {
        // The local APIC's id, in the top byte.
        entry.ebx = entry.ebx & 0x00ff_ffff | vcpu.0 << 24;
        // KVM does not list these two as supported: its user decides (Linux:
        // Documentation/virt/kvm/api.rst, KVM_GET_SUPPORTED_CPUID).
        entry.ecx |= HYPERVISOR | TSC_DEADLINE;
        if hidden {
            entry.ecx &= !HYPERVISOR;
        }
    }
    let cpuid = CpuId::from_entries(&entries)
        .map_err(|_| MachineError::Unsupported { what: "room for all CPUID leaves" })?;
    fd.set_cpuid2(&cpuid).map_err(MachineError::kvm("KVM_SET_CPUID2"))
}
