//! The guest's CPUID.

use host::{GuestClock, Kind, Leaf, VcpuId};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm, VcpuFd};

use crate::error::MachineError;
use crate::host_clock;
use crate::settings::{Backend, Settings};

/// The hypervisors' leaves.
const PARAVIRTUAL: std::ops::Range<u32> = 0x4000_0000..0x4001_0000;
/// CPUID 1, ECX: a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;
/// CPUID 1, ECX: the local APIC's timer takes a TSC deadline.
const TSC_DEADLINE: u32 = 1 << 24;

/// Hyper-V's features, EAX: the hypercall page's registers are there. Linux since
/// 5.16 takes no Hyper-V without them (arch/x86/kernel/cpu/mshyperv.c,
/// ms_hyperv_platform).
const HV_FEATURES: u32 = 0x4000_0003;
const HV_HYPERCALLS: u32 = 1 << 5;
/// Extended topology: its x2APIC id is in EDX; AMD's: in EAX.
const TOPOLOGY: [u32; 3] = [0xb, 0x1f, 0x8000_0026];
const AMD_TOPOLOGY: u32 = 0x8000_001e;

/// The hypervisor's leaves to use in place of KVM's own, if any: the provider's,
/// or those that enable the kernel's Hyper-V clock (arch/x86/kvm/hyperv.c
/// implements what the leaves offer).
pub(crate) fn leaves(
    kvm: &Kvm,
    settings: &Settings,
    host: Option<&GuestClock>,
) -> Result<Option<Vec<(u32, Leaf)>>, MachineError> {
    if let Some(host) = host {
        let mut leaves: Vec<_> = host.cpuid_leaves().collect();
        if settings.has_hypercall_page() {
            let features = leaves.iter_mut().filter(|(function, _)| *function == HV_FEATURES);
            features.for_each(|(_, leaf)| leaf.eax |= HV_HYPERCALLS);
        }
        return Ok(Some(leaves));
    }
    if settings.backend != Backend::KernelHyperV {
        return Ok(None);
    }
    if !kvm.check_extension(Cap::HypervTime) {
        return Err(MachineError::Unsupported { what: "KVM_CAP_HYPERV_TIME" });
    }
    let hyperv = host::Settings::new(Kind::HyperV, super::host_tsc()?);
    Ok(Some(GuestClock::new(hyperv, host_clock::read())?.cpuid_leaves().collect()))
}

/// What KVM supports.
pub(super) fn supported(kvm: &Kvm) -> Result<Vec<kvm_cpuid_entry2>, MachineError> {
    let supported = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    let supported = supported.map_err(MachineError::kvm("KVM_GET_SUPPORTED_CPUID"))?;
    Ok(supported.as_slice().to_vec())
}

/// What KVM supports, with the provider's `leaves` in place of KVM's own, or
/// with KVM's where there is no provider.
pub(super) fn set(
    kvm: &Kvm,
    fd: &VcpuFd,
    vcpu: VcpuId,
    leaves: Option<&[(u32, Leaf)]>,
) -> Result<(), MachineError> {
    let mut entries = supported(kvm)?;
    entries.retain(|entry| leaves.is_none() || !PARAVIRTUAL.contains(&entry.function));
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
    // KVM lists the ids of the CPU that it was asked on.
    for entry in &mut entries {
        if TOPOLOGY.contains(&entry.function) {
            entry.edx = vcpu.0;
        } else if entry.function == AMD_TOPOLOGY {
            entry.eax = vcpu.0;
        }
    }
    let cpuid = CpuId::from_entries(&entries)
        .map_err(|_| MachineError::Unsupported { what: "room for all CPUID leaves" })?;
    fd.set_cpuid2(&cpuid).map_err(MachineError::kvm("KVM_SET_CPUID2"))
}
