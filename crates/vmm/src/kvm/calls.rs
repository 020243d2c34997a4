//! Calls that kvm-ioctls lacks or leaves unsafe.
//!
//! # Invariants
//! 1. Each call reads or writes the one struct it is handed, which lives as
//!    long as the call; the file descriptor is of the kind the call is for.
//! 2. A VM's memory outlives the VM: the machine drops its VM and vCPUs first.
#![allow(unsafe_code)]

use kvm_bindings::{
    KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr, kvm_interrupt,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::error::MachineError;
use crate::memory::GuestRam;

ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);
ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, KVMIO, 0xe2, kvm_device_attr);

/// Gives the VM its memory. `ram` is asked for so that it cannot be gone yet.
pub(super) fn set_memory(
    vm: &VmFd,
    _ram: &GuestRam,
    region: kvm_userspace_memory_region,
) -> Result<(), MachineError> {
    // SAFETY: the region is `ram`'s own mapping; invariant 2.
    unsafe { vm.set_user_memory_region(region) }
        .map_err(MachineError::kvm("KVM_SET_USER_MEMORY_REGION"))
}

fn checked(result: i32, call: &'static str) -> Result<(), MachineError> {
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(MachineError::Kvm { call, error: kvm_ioctls::Error::new(error) })
}

/// Queues an external interrupt; the vCPU must be ready for it.
///
/// # Errors
/// It is not, or there is an interrupt controller in the kernel.
pub fn interrupt(vcpu: &VcpuFd, vector: u8) -> Result<(), MachineError> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: invariant 1.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_INTERRUPT(), &interrupt) };
    checked(result, "KVM_INTERRUPT")
}

fn offset_attribute(offset: &mut u64) -> kvm_device_attr {
    kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: std::ptr::from_mut(offset).expose_provenance() as u64,
        flags: 0,
    }
}

/// Guest TSC less host TSC, wrapping. Linux 5.16 and later.
///
/// # Errors
/// This KVM does not say.
pub fn tsc_offset(vcpu: &VcpuFd) -> Result<u64, MachineError> {
    let mut offset = 0;
    let attribute = offset_attribute(&mut offset);
    // SAFETY: invariant 1; the attribute is a u64, written to `offset`.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_GET_DEVICE_ATTR(), &attribute) };
    checked(result, "KVM_GET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")?;
    // The kernel wrote through the address, which the compiler cannot see.
    Ok(std::hint::black_box(offset))
}

/// Changes it.
///
/// # Errors
/// This KVM does not take it.
pub fn set_tsc_offset(vcpu: &VcpuFd, offset: u64) -> Result<(), MachineError> {
    let mut offset = offset;
    let attribute = offset_attribute(&mut offset);
    // SAFETY: invariant 1; the attribute is a u64, read from `offset`.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) };
    checked(result, "KVM_SET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")
}
