//! The calls to KVM that create a machine.

mod boot;
mod calls;
mod cpuid;
mod vcpu_state;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use ::kvm::{HostCapabilities, KvmVcpu as _};
use host::VcpuId;
use kvm_bindings::{
    KVM_CAP_VCPU_ATTRIBUTES, KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER,
    KVM_MSR_EXIT_REASON_INVAL, KVM_MSR_EXIT_REASON_UNKNOWN, KVM_PIT_SPEAKER_DUMMY, kvm_enable_cap,
    kvm_pit_config,
};
use kvm_ioctls::{
    Cap, Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VcpuFd, VmFd,
};
use pvclock::Hertz;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::error::MachineError;
use crate::memory::GuestRam;
use crate::settings::{ClockBackend, Settings};
use crate::vcpu::{IA32_TSC, IA32_TSC_ADJUST};

pub(crate) use boot::{EntryPoint, set_entry, write_tables};
pub use calls::interrupt;
pub(crate) use calls::{count_file, set_memory};
pub(crate) use cpuid::leaves;
pub(crate) use vcpu_state::{Chips, VcpuState, msrs};

/// Capabilities that a machine needs.
const NEEDED: [(Cap, &str); 4] = [
    (Cap::UserMemory, "KVM_CAP_USER_MEMORY"),
    (Cap::ImmediateExit, "KVM_CAP_IMMEDIATE_EXIT (Linux 4.11)"),
    (Cap::X86UserSpaceMsr, "KVM_CAP_X86_USER_SPACE_MSR (Linux 5.10)"),
    (Cap::X86MsrFilter, "KVM_CAP_X86_MSR_FILTER (Linux 5.10)"),
];

/// Opens /dev/kvm, and checks that it has what a machine needs.
///
/// # Errors
/// [`MachineError::NoKvm`], [`MachineError::Unsupported`].
pub fn open() -> Result<Kvm, MachineError> {
    let kvm = Kvm::new().map_err(MachineError::NoKvm)?;
    if let Some((_, what)) = NEEDED.iter().find(|(known, _)| !kvm.check_extension(*known)) {
        return Err(MachineError::Unsupported { what });
    }
    // For the TSC offset.
    if kvm.check_extension_raw(KVM_CAP_VCPU_ATTRIBUTES.into()) <= 0 {
        return Err(MachineError::Unsupported { what: "KVM_CAP_VCPU_ATTRIBUTES (Linux 5.16)" });
    }
    Ok(kvm)
}

/// A VM over `ram`, with the exits on MSRs that the clock needs.
pub(crate) fn create_vm(
    kvm: &Kvm,
    ram: &GuestRam,
    settings: &Settings,
) -> Result<VmFd, MachineError> {
    let vm = kvm.create_vm().map_err(MachineError::kvm("KVM_CREATE_VM"))?;
    set_memory(&vm, 0, ram.map())?;
    let mut capability = kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, ..Default::default() };
    capability.args[0] = u64::from(
        KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_FILTER,
    );
    vm.enable_cap(&capability).map_err(MachineError::kvm("KVM_ENABLE_CAP"))?;
    filter_msrs(&vm, settings)?;
    if settings.has_kernel_apic() {
        add_interrupt_controllers(&vm, settings.linux.is_some())?;
    }
    Ok(vm)
}

/// KVM's own interrupt controllers, and the PIT, which Linux boots with. Intel's KVM
/// wants three pages of addresses for itself (Linux: Documentation/virt/kvm/api.rst,
/// KVM_SET_TSS_ADDR).
fn add_interrupt_controllers(vm: &VmFd, with_pit: bool) -> Result<(), MachineError> {
    vm.set_tss_address(0xfffb_d000).map_err(MachineError::kvm("KVM_SET_TSS_ADDR"))?;
    vm.create_irq_chip().map_err(MachineError::kvm("KVM_CREATE_IRQCHIP"))?;
    if !with_pit {
        return Ok(());
    }
    let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..Default::default() };
    vm.create_pit2(pit).map_err(MachineError::kvm("KVM_CREATE_PIT2"))
}

/// An interrupt line of the guest: a write to the returned event raises it.
pub(crate) fn interrupt_line(vm: &VmFd, line: u32) -> Result<EventFd, MachineError> {
    let event = EventFd::new(EFD_NONBLOCK)
        .map_err(|error| MachineError::Kvm { call: "eventfd", error: error.into() })?;
    vm.register_irqfd(&event, line).map_err(MachineError::kvm("KVM_IRQFD"))?;
    Ok(event)
}

/// A vCPU as after a reset, with its CPUID.
pub(crate) fn create_vcpu(
    kvm: &Kvm,
    vm: &VmFd,
    vcpu: VcpuId,
    settings: &Settings,
    leaves: Option<&[(u32, host::Leaf)]>,
) -> Result<VcpuFd, MachineError> {
    let fd = vm.create_vcpu(vcpu.0.into()).map_err(MachineError::kvm("KVM_CREATE_VCPU"))?;
    cpuid::set(kvm, &fd, vcpu, settings, leaves)?;
    Ok(fd)
}

/// A vCPU's TSC offset as KVM has it, wrapping.
///
/// # Errors
/// KVM's own.
pub fn tsc_offset(vcpu: &VcpuFd) -> Result<u64, MachineError> {
    Ok(vcpu.tsc_offset()?)
}

/// Sets it, and returns the one that KVM has then.
///
/// # Errors
/// KVM's own.
pub fn set_tsc_offset(vcpu: &VcpuFd, offset: u64) -> Result<u64, MachineError> {
    Ok(vcpu.set_tsc_offset(offset)?)
}

/// The rate of this host's TSC, from KVM.
///
/// # Errors
/// [`open`]'s, or KVM's own.
pub fn host_tsc() -> Result<Hertz, MachineError> {
    Ok(query_host(&open()?)?.tsc.frequency)
}

/// Whether guests are told that the TSC is invariant: CPUID 0x8000_0007 EDX bit 8,
/// which KVM passes on.
pub fn tsc_is_invariant() -> bool {
    // An open /dev/kvm is no machine yet.
    let leaves = open().and_then(|kvm| cpuid::supported(&kvm)).unwrap_or_default();
    leaves.iter().any(|leaf| leaf.function == 0x8000_0007 && leaf.edx & 1 << 8 != 0)
}

/// This host. KVM is queried once: it takes milliseconds, and a machine is restored while
/// its guest's time is stopped.
pub(crate) fn query_host(kvm: &Kvm) -> Result<HostCapabilities, MachineError> {
    static KNOWN: OnceLock<HostCapabilities> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let queried = HostCapabilities::query(kvm)?;
    Ok(KNOWN.get_or_init(|| queried).clone())
}

/// The MSRs that KVM must not handle, for every provider: a register that the provider lacks is #GP for the guest,
/// although KVM has it. First and number.
const PARAVIRTUAL: [(u32, u32); 3] = [
    // kvm-clock's old MSRs.
    (0x11, 2),
    // KVM's.
    (0x4b56_4d00, 8),
    // Hyper-V's.
    (0x4000_0000, 0x200),
];

/// The guest's TSC: writes change our pages, reads stay in KVM. First and
/// number.
const TSC: [(u32, u32); 2] = [(IA32_TSC, 1), (IA32_TSC_ADJUST, 1)];

fn filter_msrs(vm: &VmFd, settings: &Settings) -> Result<(), MachineError> {
    // A clear bit is an access that exits to us.
    let bitmap = [0; 0x200 / 8];
    let own = matches!(settings.backend, ClockBackend::Own(_));
    let both = MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE;
    let paravirtual = PARAVIRTUAL.iter().map(|range| (range, both)).filter(|_| own);
    // The VMClock's page is ours with every backend.
    let by_tsc = own || settings.vmclock;
    let tsc = TSC.iter().map(|range| (range, MsrFilterRangeFlags::WRITE)).filter(|_| by_tsc);
    let ranges: Vec<_> = paravirtual
        .chain(tsc)
        .map(|(&(base, msr_count), flags)| MsrFilterRange {
            flags,
            base,
            msr_count,
            bitmap: &bitmap[..msr_count.div_ceil(8) as usize],
        })
        .collect();
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ranges)
        .map_err(MachineError::kvm("KVM_X86_SET_MSR_FILTER"))
}

/// More than any KVM has.
const COUNTS_MAX: usize = 1024;
const NAME_MAX: usize = 256;
/// `struct kvm_stats_header`, and `struct kvm_stats_desc` before its name.
const HEADER: usize = 24;
const DESCRIPTION: usize = 16;

/// A vCPU's counts by their names: `exits`, `halt_exits`, `irq_injections`.
pub type Counts = BTreeMap<String, u64>;

/// A vCPU's counts of one word, from its binary statistics (Linux:
/// Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD; 5.14); `None` where the file is not one of statistics.
pub(crate) fn read_counts(file: &File) -> Option<Counts> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let word = |index: usize| u32_at(&header, 4 * index);
    let (name, number) = (word(1) as usize, word(2) as usize);
    if name > NAME_MAX || number > COUNTS_MAX {
        return None;
    }
    let mut descriptions = vec![0; number * (DESCRIPTION + name)];
    file.read_exact_at(&mut descriptions, word(4).into()).ok()?;
    let mut counts = Counts::new();
    for one in descriptions.chunks_exact(DESCRIPTION + name) {
        let (size, offset) = (u16::from_le_bytes([one[6], one[7]]), u32_at(one, 8));
        // Histograms have more words.
        if size == 1 {
            let mut value = [0; 8];
            file.read_exact_at(&mut value, u64::from(word(5)) + u64::from(offset)).ok()?;
            let name = one[DESCRIPTION..].split(|byte| *byte == 0).next().unwrap_or_default();
            counts.insert(String::from_utf8_lossy(name).into_owned(), u64::from_le_bytes(value));
        }
    }
    Some(counts)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_none_of_statistics_has_no_counts() {
        let of = |path| read_counts(&File::open(path).unwrap());
        assert_eq!(of("/dev/null"), None);
        assert_eq!(of("/dev/zero"), Some(Counts::new()));
    }
}
