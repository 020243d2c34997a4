//! The calls to KVM that create a machine.

mod boot;
mod calls;
mod counts;
mod cpuid;
mod msr_filter;
mod vcpu_state;

use std::sync::OnceLock;

use ::kvm::{HostCapabilities, KvmVcpu as _};
use host::VcpuId;
use kvm_bindings::{
    KVM_CAP_VCPU_ATTRIBUTES, KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER,
    KVM_MSR_EXIT_REASON_INVAL, KVM_MSR_EXIT_REASON_UNKNOWN, KVM_PIT_SPEAKER_DUMMY, kvm_enable_cap,
    kvm_pit_config,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd, VmFd};
use pvclock::Hertz;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::error::MachineError;
use crate::memory::GuestRam;
use crate::settings::Settings;

pub(crate) use boot::{EntryPoint, set_entry, write_tables};
pub use calls::interrupt;
pub(crate) use calls::{count_file, set_memory};
pub use counts::Counts;
pub(crate) use counts::read as read_counts;
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
    msr_filter::set(&vm, settings)?;
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
