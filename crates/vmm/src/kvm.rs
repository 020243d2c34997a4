//! The calls to KVM that create a machine.

mod boot;
mod calls;
mod cpuid;
mod msr_filter;
mod vcpu_state;

use std::sync::OnceLock;

use ::kvm::{HostTsc, Vcpu as _};
use host::VcpuId;
use kvm_bindings::{
    KVM_CAP_VCPU_ATTRIBUTES, KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER,
    KVM_MSR_EXIT_REASON_INVAL, KVM_MSR_EXIT_REASON_UNKNOWN, kvm_enable_cap,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd, VmFd};
use pvclock::Hertz;

use crate::error::MachineError;
use crate::memory::GuestRam;
use crate::settings::Backend;

pub(crate) use boot::{set_entry, write_tables};
pub use calls::interrupt;
pub(crate) use cpuid::leaves;
pub(crate) use vcpu_state::VcpuState;

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

/// A VM over `ram`, with the exits on MSRs that `backend` needs.
pub(crate) fn create_vm(
    kvm: &Kvm,
    ram: &GuestRam,
    backend: &Backend,
) -> Result<VmFd, MachineError> {
    let vm = kvm.create_vm().map_err(MachineError::kvm("KVM_CREATE_VM"))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: ram.size(),
        userspace_addr: ram.host_address(),
    };
    calls::set_memory(&vm, ram, region)?;
    let mut capability = kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, ..Default::default() };
    capability.args[0] = u64::from(
        KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_FILTER,
    );
    vm.enable_cap(&capability).map_err(MachineError::kvm("KVM_ENABLE_CAP"))?;
    msr_filter::set(&vm, backend)?;
    Ok(vm)
}

/// A vCPU as after a reset, with its CPUID.
pub(crate) fn create_vcpu(
    kvm: &Kvm,
    vm: &VmFd,
    vcpu: VcpuId,
    leaves: Option<&[(u32, host::Leaf)]>,
) -> Result<VcpuFd, MachineError> {
    let fd = vm.create_vcpu(vcpu.0.into()).map_err(MachineError::kvm("KVM_CREATE_VCPU"))?;
    cpuid::set(kvm, &fd, vcpu, leaves)?;
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
    Ok(query_host(&open()?)?.frequency)
}

/// This host's TSC. KVM is queried once: it takes milliseconds, and a machine
/// is restored while its guest's time is stopped.
pub(crate) fn query_host(kvm: &Kvm) -> Result<HostTsc, MachineError> {
    static KNOWN: OnceLock<HostTsc> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let queried = HostTsc::query(kvm)?;
    Ok(*KNOWN.get_or_init(|| queried))
}
