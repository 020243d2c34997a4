//! The guest's CPUID.

use host::{ClockProvider, GuestClock, Leaf, VcpuId};
use kvm_bindings::{
    CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd};

use crate::error::MachineError;
use crate::host_clock;
use crate::settings::{ClockBackend, Settings};

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
/// Extended topology, by levels; AMD's own, and AMD's count of cores.
const TOPOLOGY: [u32; 3] = [0xb, 0x1f, 0x8000_0026];
const AMD_TOPOLOGY: u32 = 0x8000_001e;
const AMD_CORES: u32 = 0x8000_0008;
/// Caches, one an index, with how many share each: Intel's leaf and AMD's.
const CACHES: u32 = 4;
const AMD_CACHES: u32 = 0x8000_001d;
/// Which of a cache's bits are its kind, and the level from which on cores share one.
const CACHE_KIND: u32 = 0x1f;
const SHARED_LEVEL: u32 = 3;
/// CPUID 1, EDX: there are several logical processors (HTT).
const SEVERAL: u32 = 1 << 28;

/// The hypervisor's leaves to use in place of KVM's own, if any: the provider's,
/// or those that enable the kernel's Hyper-V clock (arch/x86/kvm/hyperv.c
/// implements what the leaves offer).
pub(crate) fn leaves(
    kvm: &Kvm,
    settings: &Settings,
    host: Option<&GuestClock>,
) -> Result<Option<Vec<(u32, Leaf)>>, MachineError> {
    if let Some(host) = host {
        let leaves = host.cpuid_leaves().collect();
        return Ok(Some(if settings.has_hypercall_page() {
            with_hypercalls(leaves)
        } else {
            leaves
        }));
    }
    if settings.backend != ClockBackend::KernelHyperV {
        return Ok(None);
    }
    if !kvm.check_extension(Cap::HypervTime) {
        return Err(MachineError::Unsupported { what: "KVM_CAP_HYPERV_TIME" });
    }
    let hyperv = host::ClockSettings::new(ClockProvider::HyperV, super::host_tsc()?);
    let leaves = GuestClock::new(hyperv, host_clock::read())?.cpuid_leaves().collect();
    Ok(Some(with_hypercalls(leaves)))
}

fn with_hypercalls(mut leaves: Vec<(u32, Leaf)>) -> Vec<(u32, Leaf)> {
    let features = leaves.iter_mut().filter(|(function, _)| *function == HV_FEATURES);
    features.for_each(|(_, leaf)| leaf.eax |= HV_HYPERCALLS);
    leaves
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
    settings: &Settings,
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
        // KVM does not list these two as supported: its user decides (Linux:
        // Documentation/virt/kvm/api.rst, KVM_GET_SUPPORTED_CPUID).
        entry.ecx |= HYPERVISOR | if settings.has_kernel_apic() { TSC_DEADLINE } else { 0 };
        if hidden {
            entry.ecx &= !HYPERVISOR;
        }
    }
    one_package(&mut entries, vcpu.0, settings.vcpus as u32);
    set_entries(fd, &entries)
}

/// KVM lists the topology of the host, and of the CPU that it was asked on. All vCPUs are
/// cores of one package: Linux gives up the TSCs of several, unless they are constant
/// (unsynchronized_tsc, arch/x86/kernel/tsc.c). 4 vCPUs have 2 bits of their ids for the core.
fn one_package(entries: &mut Vec<kvm_cpuid_entry2>, id: u32, vcpus: u32) {
    let bits = vcpus.next_power_of_two().trailing_zeros();
    let ids = 1 << bits;
    // KVM may list the leaf with zeros, for its user to fill in (__do_cpuid_func,
    // arch/x86/kvm/cpuid.c).
    let has_levels = entries.iter().any(|one| one.function == 0xb);
    entries.retain(|entry| !TOPOLOGY.contains(&entry.function));
    for entry in entries.iter_mut() {
        match entry.function {
            1 => {
                let several = if vcpus > 1 { SEVERAL } else { 0 };
                entry.ebx = entry.ebx & 0xffff | id << 24 | vcpus << 16;
                entry.edx = entry.edx & !SEVERAL | several;
            }
            // Linux without leaf 0xb counts Intel's cores by this one (detect_num_cpu_cores,
            // arch/x86/kernel/cpu/common.c).
            CACHES | AMD_CACHES if entry.eax & CACHE_KIND != 0 => {
                let is_shared = entry.eax >> 5 & 7 >= SHARED_LEVEL;
                let sharing: u32 = if is_shared { ids } else { 1 };
                let cores: u32 = if entry.function == CACHES { ids } else { 1 };
                entry.eax = entry.eax & 0x3fff | (sharing - 1) << 14 | (cores - 1) << 26;
            }
            AMD_CORES => entry.ecx = bits << 12 | (vcpus - 1),
            // One thread a core, one node.
            AMD_TOPOLOGY => (entry.eax, entry.ebx, entry.ecx) = (id, id, 0),
            _ => {}
        }
    }
    if has_levels {
        // By thread and by core: bits, how many, level and its kind, id.
        for (index, eax, ebx, ecx) in [(0, 0, 1, 1 << 8), (1, bits, vcpus, 1 | 2 << 8)] {
            let flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
            let edx = id;
            entries.push(kvm_cpuid_entry2 {
                function: 0xb,
                index,
                flags,
                eax,
                ebx,
                ecx,
                edx,
                ..Default::default()
            });
        }
    }
}

pub(super) fn set_entries(fd: &VcpuFd, entries: &[kvm_cpuid_entry2]) -> Result<(), MachineError> {
    let cpuid = CpuId::from_entries(entries)
        .map_err(|_| MachineError::Unsupported { what: "room for all CPUID leaves" })?;
    fd.set_cpuid2(&cpuid).map_err(MachineError::kvm("KVM_SET_CPUID2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_vcpus_are_cores_of_one_package() {
        let host = |function, ebx| kvm_cpuid_entry2 { function, ebx, ..Default::default() };
        for (vcpus, bits) in [(1, 0), (3, 2), (4, 2)] {
            let mut entries = vec![host(1, 0x0102_0800), host(0xb, 2), host(0x1f, 2)];
            entries.extend([host(AMD_CORES, 7), host(AMD_TOPOLOGY, 0x100)]);
            one_package(&mut entries, vcpus - 1, vcpus);
            let of = |function, index| {
                *entries.iter().find(|one| (one.function, one.index) == (function, index)).unwrap()
            };
            let (basic, amd) = (of(1, 0), of(AMD_TOPOLOGY, 0));
            assert_eq!(basic.ebx, (vcpus - 1) << 24 | vcpus << 16 | 0x800);
            assert_eq!(basic.edx & SEVERAL != 0, vcpus > 1);
            assert_eq!((of(AMD_CORES, 0).ecx, of(AMD_CORES, 0).ebx), (bits << 12 | (vcpus - 1), 7));
            assert_eq!((amd.eax, amd.ebx), (vcpus - 1, vcpus - 1));
            assert_eq!((of(0xb, 0).eax, of(0xb, 0).ebx), (0, 1));
            assert_eq!((of(0xb, 1).eax, of(0xb, 1).ebx, of(0xb, 1).edx), (bits, vcpus, vcpus - 1));
            assert!(entries.iter().all(|one| one.function != 0x1f));
        }
    }

    #[test]
    fn a_host_that_lists_no_topology_and_its_own_caches_has_one_package_too() {
        // 16 cores of 2 threads, as KVM lists them: leaf 0xb of zeros, leaf 4 as of the
        // host (__do_cpuid_func, arch/x86/kvm/cpuid.c).
        let cache = |function, level: u32, sharing: u32, cores: u32| kvm_cpuid_entry2 {
            function,
            index: level,
            flags: KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            eax: cores << 26 | sharing << 14 | 1 << 8 | level << 5 | 3,
            ebx: 7,
            ..Default::default()
        };
        let none = kvm_cpuid_entry2 { function: CACHES, index: 4, ..Default::default() };
        for (vcpus, ids) in [(1, 1), (2, 2), (3, 4)] {
            let mut entries = vec![kvm_cpuid_entry2 { function: 0xb, ..Default::default() }, none];
            for function in [CACHES, AMD_CACHES] {
                entries.extend([cache(function, 1, 1, 15), cache(function, 3, 31, 15)]);
            }
            one_package(&mut entries, 0, vcpus);
            let of = |function, index| {
                *entries.iter().find(|one| (one.function, one.index) == (function, index)).unwrap()
            };
            assert_eq!((of(0xb, 0).ebx, of(0xb, 1).ebx), (1, vcpus));
            let (own, shared) = (of(CACHES, 1), of(CACHES, 3));
            assert_eq!((own.eax >> 26, own.eax >> 14 & 0xfff, own.ebx), (ids - 1, 0, 7));
            assert_eq!((shared.eax >> 26, shared.eax >> 14 & 0xfff), (ids - 1, ids - 1));
            assert_eq!(shared.eax & 0x3fff, 1 << 8 | 3 << 5 | 3, "type and level stay");
            // AMD has no count of cores there.
            assert_eq!((of(AMD_CACHES, 1).eax >> 14, of(AMD_CACHES, 3).eax >> 14), (0, ids - 1));
            assert_eq!(of(CACHES, 4), none, "no more caches");
        }
        // A host without the leaf is an old one, whose guests ask for none.
        let mut old = vec![kvm_cpuid_entry2 { function: 1, ..Default::default() }];
        one_package(&mut old, 0, 2);
        assert_eq!(old.len(), 1);
    }
}
