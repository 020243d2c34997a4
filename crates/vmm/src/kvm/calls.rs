//! Calls that kvm-ioctls lacks or leaves unsafe.
//!
//! # Invariants
//! 1. Each call reads the one struct that it is passed, which lives as long as
//!    the call; the file descriptor is of the kind the call is for.
//! 2. A state of XSAVE is of 4096 bytes: KVM has said so of this vCPU.
//! 3. A VM's memory outlives the VM: the machine drops its VM and vCPUs first.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::FromRawFd;

use kvm_bindings::{KVMIO, kvm_interrupt, kvm_userspace_memory_region};
use kvm_ioctls::{VcpuFd, VmFd};
use vm_memory::{GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};
use vmm_sys_util::ioctl::{ioctl, ioctl_with_ref};
use vmm_sys_util::{ioctl_io_nr, ioctl_iow_nr};

use crate::error::MachineError;

ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);

ioctl_io_nr!(KVM_GET_STATS_FD, KVMIO, 0xce);

/// The file of what KVM counts of a vCPU, which must not be running.
///
/// # Errors
/// This KVM counts nothing.
pub(crate) fn count_file(vcpu: &VcpuFd) -> Result<File, MachineError> {
    // SAFETY: invariant 1; it takes no argument.
    let fd = unsafe { ioctl(vcpu, KVM_GET_STATS_FD()) };
    if fd < 0 {
        let error = kvm_ioctls::Error::last();
        return Err(MachineError::Kvm { call: "KVM_GET_STATS_FD", error });
    }
    // SAFETY: KVM made this descriptor for the caller.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Gives the VM the first region of `memory`, in this slot.
pub(crate) fn set_memory(
    vm: &VmFd,
    slot: u32,
    memory: &GuestMemoryMmap,
) -> Result<(), MachineError> {
    let Some(region) = memory.iter().next() else { return Ok(()) };
    let region = kvm_userspace_memory_region {
        slot,
        flags: 0,
        guest_phys_addr: region.start_addr().0,
        memory_size: region.len(),
        userspace_addr: region.as_ptr() as u64,
    };
    // SAFETY: the region is its owner's mapping; invariant 3.
    unsafe { vm.set_user_memory_region(region) }
        .map_err(MachineError::kvm("KVM_SET_USER_MEMORY_REGION"))
}

/// The extended registers: KVM_SET_XSAVE, of so many words as KVM_GET_XSAVE returns.
pub(super) fn set_xsave(vcpu: &VcpuFd, words: &[u32]) -> Result<(), MachineError> {
    // It refuses where a state is larger (kvm_vcpu_ioctl_x86_get_xsave).
    let mut state = vcpu.get_xsave().map_err(MachineError::kvm("KVM_GET_XSAVE"))?;
    if words.len() != state.region.len() {
        return Err(MachineError::Unsupported { what: "state of XSAVE of this size" });
    }
    state.region.copy_from_slice(words);
    // SAFETY: invariant 2.
    unsafe { vcpu.set_xsave(&state) }.map_err(MachineError::kvm("KVM_SET_XSAVE"))
}

/// Queues an external interrupt; the vCPU must be ready for it.
///
/// # Errors
/// It is not, or there is an interrupt controller in the kernel.
pub fn interrupt(vcpu: &VcpuFd, vector: u8) -> Result<(), MachineError> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: invariant 1.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_INTERRUPT(), &interrupt) };
    if result == 0 {
        return Ok(());
    }
    Err(MachineError::Kvm { call: "KVM_INTERRUPT", error: kvm_ioctls::Error::last() })
}
