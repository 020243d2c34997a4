//! A vCPU's TSC: its offset, saved as a value and restored by the plan.
//!
//! # Invariants
//! 1. Each call reads or writes the one struct that it is passed, which lives
//!    as long as the call; the file descriptor is that of a vCPU.
#![allow(unsafe_code)]

use host::{ClockPlan, HostClocks, TscPlan, VcpuId};
use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd};
use pvclock::Hertz;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::Error;

ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, KVMIO, 0xe2, kvm_device_attr);

/// KVM does not scale a rate this close to the host's (`tsc_tolerance_ppm`,
/// kvm_set_tsc_khz, arch/x86/kvm/x86.c).
const TOLERANCE_PPM: u128 = 250;

/// The host's TSC, and how KVM scales a guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostTsc {
    /// Its rate.
    pub frequency: Hertz,
    /// Bits of the ratio's fraction, if KVM scales.
    pub fraction_bits: Option<u32>,
}

impl HostTsc {
    /// A host whose KVM does not scale.
    pub const fn unscaled(frequency: Hertz) -> Self {
        Self { frequency, fraction_bits: None }
    }

    /// How KVM runs a guest's TSC of this rate. A guest of 2,000,400,000 Hz on a
    /// host of 2,000,000,000 Hz is 200 ppm off: its TSC runs at the host's rate.
    fn plan(self, guest: Hertz) -> Result<TscPlan, Error> {
        let off = u128::from(guest.0.abs_diff(self.frequency.0)) * 1_000_000;
        let is_close = off <= u128::from(self.frequency.0) * TOLERANCE_PPM;
        let bits = self.fraction_bits.filter(|_| !is_close);
        Ok(TscPlan::new(guest, self.frequency, bits)?)
    }

    /// Queries KVM, on a VM and a vCPU that exist for this call alone: a vCPU
    /// in use may have another rate by KVM_SET_TSC_KHZ.
    ///
    /// # Errors
    /// KVM's own.
    pub fn query(kvm: &Kvm) -> Result<Self, Error> {
        let vm = kvm.create_vm().map_err(Error::call("KVM_CREATE_VM"))?;
        let vcpu = vm.create_vcpu(0).map_err(Error::call("KVM_CREATE_VCPU"))?;
        let frequency = tsc_frequency(&vcpu)?;
        if !kvm.check_extension(Cap::TscControl) {
            return Ok(Self::unscaled(frequency));
        }
        let supported = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::call("KVM_GET_SUPPORTED_CPUID"))?;
        // AMD's and Hygon's hardware has 32 bits, Intel's 48 (Linux:
        // tsc_scaling_ratio_frac_bits in svm.c and vmx.c). CPUID 0, EBX holds
        // the first letters of the vendor.
        let vendor = supported.as_slice().iter().find(|entry| entry.function == 0);
        let vendor = vendor.map_or([0; 4], |entry| entry.ebx.to_le_bytes());
        let bits = if matches!(&vendor, b"Auth" | b"Hygo") { 32 } else { 48 };
        Ok(Self { frequency, fraction_bits: Some(bits) })
    }
}

/// A saved TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedTsc {
    /// The rate of the guest's TSC.
    pub frequency: Hertz,
    /// The guest's TSC when the clock was saved.
    pub tsc: u64,
}

/// A restored TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredTsc {
    /// The rate of the guest's TSC: where KVM does not scale, the host's.
    pub frequency: Hertz,
    /// The offset that was set, wrapping.
    pub wanted: u64,
    /// The offset that KVM has now: software KVMs keep it at 0.
    pub offset: u64,
}

impl SavedTsc {
    /// Saves a vCPU's TSC, as it was when [`save_clock`](crate::save_clock)
    /// returned `taken`. The vCPU has not run since.
    ///
    /// # Errors
    /// KVM's own; Linux before 5.16 has no TSC offset attribute.
    pub fn save(vcpu: &VcpuFd, host: HostTsc, taken: HostClocks) -> Result<Self, Error> {
        let frequency = tsc_frequency(vcpu)?;
        let plan = host.plan(frequency)?;
        let tsc = plan.base(taken.tsc).wrapping_add(tsc_offset(vcpu)?);
        Ok(Self { frequency, tsc })
    }

    /// Sets a vCPU's TSC to where this one continues by `plan`, at `now`.
    ///
    /// # Errors
    /// KVM's own, or the TSC cannot continue on this host.
    pub fn restore(
        &self,
        vcpu: &VcpuFd,
        id: VcpuId,
        host: HostTsc,
        plan: &ClockPlan,
        now: HostClocks,
    ) -> Result<RestoredTsc, Error> {
        let rate = host.plan(self.frequency)?;
        let planned = plan.tsc(id, self.tsc, self.frequency, rate.base(now.tsc))?;
        // In this order: the offset is in cycles of the new rate. A value written
        // by KVM_SET_MSRS would be stale when it arrives, and KVM guesses then
        // whether vCPUs are meant to agree.
        // Where KVM does not scale it refuses a slower rate than the host's.
        if tsc_frequency(vcpu)? != self.frequency {
            let khz = u32::try_from(self.frequency.0 / 1_000).unwrap_or(u32::MAX);
            vcpu.set_tsc_khz(khz).map_err(Error::call("KVM_SET_TSC_KHZ"))?;
        }
        let offset = set_tsc_offset(vcpu, planned.tsc_offset)?;
        Ok(RestoredTsc { frequency: rate.rate, wanted: planned.tsc_offset, offset })
    }
}

fn tsc_frequency(vcpu: &VcpuFd) -> Result<Hertz, Error> {
    let khz = vcpu.get_tsc_khz().map_err(Error::call("KVM_GET_TSC_KHZ"))?;
    Ok(Hertz(u64::from(khz) * 1_000))
}

/// Guest TSC less host TSC, wrapping. Linux 5.16 and later.
///
/// # Errors
/// This KVM has no such attribute.
pub fn tsc_offset(vcpu: &VcpuFd) -> Result<u64, Error> {
    let mut offset = 0;
    let attribute = offset_attribute(&mut offset);
    // SAFETY: invariant 1; the attribute is a u64, written to `offset`.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_GET_DEVICE_ATTR(), &attribute) };
    checked(result, "KVM_GET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")?;
    // The kernel wrote through the address, which the compiler cannot see.
    Ok(std::hint::black_box(offset))
}

/// Sets it, and returns the offset that KVM has now: not every KVM takes one.
///
/// # Errors
/// KVM's own.
pub fn set_tsc_offset(vcpu: &VcpuFd, offset: u64) -> Result<u64, Error> {
    let mut offset = offset;
    let attribute = offset_attribute(&mut offset);
    // SAFETY: invariant 1; the attribute is a u64, read from `offset`.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) };
    checked(result, "KVM_SET_DEVICE_ATTR(KVM_VCPU_TSC_OFFSET)")?;
    tsc_offset(vcpu)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_within_250_ppm_is_not_scaled() {
        let host = HostTsc { frequency: Hertz(2_000_000_000), fraction_bits: Some(48) };
        for (guest, rate) in [
            (2_000_500_000, 2_000_000_000),
            (1_999_500_000, 2_000_000_000),
            (2_000_501_000, 2_000_501_000),
            (1_999_499_000, 1_999_499_000),
        ] {
            assert_eq!(host.plan(Hertz(guest)).unwrap().rate, Hertz(rate), "{guest}");
        }
    }
}
