//! The calls to KVM that concern clocks, as two traits: real ones on the file
//! descriptors of kvm-ioctls, and a model of KVM in the tests.
//!
//! # Invariants
//! 1. Each call reads or writes the one struct that it is passed, which lives
//!    as long as the call; the file descriptor is that of a vCPU.
#![allow(unsafe_code)]

use kvm_bindings::{
    KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, Msrs, kvm_clock_data, kvm_device_attr,
    kvm_msr_entry,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::Error;
use crate::host_clock::{self, HostReading};

ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, KVMIO, 0xe2, kvm_device_attr);

/// A virtual machine's clock, and the clocks of its host.
pub trait KvmVm {
    /// KVM_GET_CLOCK.
    ///
    /// # Errors
    /// KVM's own.
    fn get_clock(&self) -> Result<kvm_clock_data, Error>;
    /// KVM_SET_CLOCK.
    ///
    /// # Errors
    /// KVM's own: before Linux 5.16, of any flag.
    fn set_clock(&self, data: &kvm_clock_data) -> Result<(), Error>;
    /// The host's clocks.
    fn host_clocks(&self) -> HostReading {
        host_clock::read_with_width()
    }
}

/// A vCPU's TSC and clock registers; for its own thread.
pub trait KvmVcpu {
    /// KVM_GET_TSC_KHZ: the rate that it was given, which may not be the true one.
    ///
    /// # Errors
    /// KVM's own.
    fn tsc_khz(&self) -> Result<u32, Error>;
    /// KVM_SET_TSC_KHZ.
    ///
    /// # Errors
    /// KVM's own: it cannot make the TSC so slow.
    fn set_tsc_khz(&self, khz: u32) -> Result<(), Error>;
    /// KVM_VCPU_TSC_OFFSET: guest TSC less host TSC (scaled), wrapping. Linux 5.16.
    ///
    /// # Errors
    /// This KVM has no such attribute.
    fn tsc_offset(&self) -> Result<u64, Error>;
    /// Sets it, and returns the offset that KVM has now: not every KVM takes one.
    ///
    /// # Errors
    /// KVM's own.
    fn set_tsc_offset(&self, offset: u64) -> Result<u64, Error>;
    /// An MSR; `None` where this KVM does not have it.
    ///
    /// # Errors
    /// KVM's own.
    fn msr(&self, index: u32) -> Result<Option<u64>, Error>;
    /// Sets an MSR; `false` where KVM refuses.
    ///
    /// # Errors
    /// KVM's own.
    fn set_msr(&self, index: u32, value: u64) -> Result<bool, Error>;
    /// KVM_KVMCLOCK_CTRL: GUEST_STOPPED at the next update of the page; `false`
    /// where the guest has none.
    ///
    /// # Errors
    /// KVM's own.
    fn announce_stop(&self) -> Result<bool, Error>;
}

impl KvmVm for VmFd {
    fn get_clock(&self) -> Result<kvm_clock_data, Error> {
        Self::get_clock(self).map_err(Error::call("KVM_GET_CLOCK"))
    }

    fn set_clock(&self, data: &kvm_clock_data) -> Result<(), Error> {
        Self::set_clock(self, data).map_err(Error::call("KVM_SET_CLOCK"))
    }
}

impl KvmVcpu for VcpuFd {
    fn tsc_khz(&self) -> Result<u32, Error> {
        self.get_tsc_khz().map_err(Error::call("KVM_GET_TSC_KHZ"))
    }

    fn set_tsc_khz(&self, khz: u32) -> Result<(), Error> {
        Self::set_tsc_khz(self, khz).map_err(Error::call("KVM_SET_TSC_KHZ"))
    }

    fn tsc_offset(&self) -> Result<u64, Error> {
        let mut offset = 0;
        let attribute = offset_attribute(&mut offset);
        // SAFETY: invariant 1; the attribute is a u64, written to `offset`.
        let result = unsafe { ioctl_with_ref(self, KVM_GET_DEVICE_ATTR(), &attribute) };
        checked(result, "KVM_GET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")?;
        // The kernel wrote through the address, which the compiler cannot see.
        Ok(std::hint::black_box(offset))
    }

    fn set_tsc_offset(&self, offset: u64) -> Result<u64, Error> {
        let mut offset = offset;
        let attribute = offset_attribute(&mut offset);
        // SAFETY: invariant 1; the attribute is a u64, read from `offset`.
        let result = unsafe { ioctl_with_ref(self, KVM_SET_DEVICE_ATTR(), &attribute) };
        checked(result, "KVM_SET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")?;
        KvmVcpu::tsc_offset(self)
    }

    fn msr(&self, index: u32) -> Result<Option<u64>, Error> {
        let mut msrs = one_msr(index, 0)?;
        let read = self.get_msrs(&mut msrs).map_err(Error::call("KVM_GET_MSRS"))?;
        Ok(msrs.as_slice().first().filter(|_| read == 1).map(|entry| entry.data))
    }

    fn set_msr(&self, index: u32, value: u64) -> Result<bool, Error> {
        let written = self.set_msrs(&one_msr(index, value)?);
        Ok(written.map_err(Error::call("KVM_SET_MSRS"))? == 1)
    }

    fn announce_stop(&self) -> Result<bool, Error> {
        match self.kvmclock_ctrl() {
            Ok(()) => Ok(true),
            // The guest has no page (kvm_set_guest_paused, arch/x86/kvm/x86.c).
            Err(error) if error.errno() == libc::EINVAL => Ok(false),
            Err(error) => Err(Error::Call { call: "KVM_KVMCLOCK_CTRL", error }),
        }
    }
}

fn one_msr(index: u32, data: u64) -> Result<Msrs, Error> {
    let entry = kvm_msr_entry { index, data, ..Default::default() };
    let error = || kvm_ioctls::Error::new(libc::ENOMEM);
    Msrs::from_entries(&[entry]).map_err(|_| Error::Call { call: "KVM_SET_MSRS", error: error() })
}

fn offset_attribute(offset: &mut u64) -> kvm_device_attr {
    kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: std::ptr::from_mut(offset).expose_provenance() as u64,
        flags: 0,
    }
}

fn checked(result: i32, call: &'static str) -> Result<(), Error> {
    if result == 0 {
        return Ok(());
    }
    Err(Error::Call { call, error: kvm_ioctls::Error::last() })
}
