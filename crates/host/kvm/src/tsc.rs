//! A vCPU's TSC: its offset, saved as a value and restored by the plan; and the timer
//! that counts in it.

use kvm_bindings::KVM_MAX_CPUID_ENTRIES;
use kvm_ioctls::{Cap, Kvm};
use pvclock::Hertz;
use pvclock_host::{HostClocks, TscPlan, VcpuId};

use crate::{Error, KvmVcpu, RestoredClock};

/// The sum of all changes that the guest made to its TSC.
const IA32_TSC_ADJUST: u32 = 0x3b;
/// When the local APIC's timer fires, in cycles of the guest's TSC.
const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// The addresses of the guest's kvm-clock page and of its steal time, with bit 0 on.
const KVM_SYSTEM_TIME: u32 = 0x4b56_4d01;
const KVM_STEAL_TIME: u32 = 0x4b56_4d03;

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

    /// A host whose KVM scales, with this number of fraction bits: Intel's 48, AMD's 32.
    pub const fn scaled(frequency: Hertz, fraction_bits: u32) -> Self {
        Self { frequency, fraction_bits: Some(fraction_bits) }
    }

    /// How KVM runs a guest's TSC of this rate. A guest of 2,000,400,000 Hz on a
    /// host of 2,000,000,000 Hz is 200 ppm off: its TSC runs at the host's rate.
    ///
    /// # Errors
    /// [`Error::CatchUp`], [`Error::TooSlow`]; the ratio fits no register.
    pub fn plan(self, guest: Hertz) -> Result<TscPlan, Error> {
        let host = self.frequency;
        if self.fraction_bits.is_none() && !TscPlan::is_tolerated(guest, host) {
            let is_faster = guest > host;
            return Err(if is_faster {
                Error::CatchUp { guest, host }
            } else {
                Error::TooSlow { guest, host }
            });
        }
        Ok(TscPlan::new(guest, host, self.fraction_bits)?)
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
        Ok(Self::scaled(frequency, bits))
    }
}

/// A saved TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedTsc {
    /// The rate that the guest was given for its TSC. Within 250 ppm of the host's it
    /// ran at the host's.
    pub frequency: Hertz,
    /// The guest's TSC when the clock was saved.
    pub tsc: u64,
    /// IA32_TSC_ADJUST, where KVM has it.
    pub adjust: Option<u64>,
    /// IA32_TSC_DEADLINE, where KVM has it; 0 is no timer.
    pub deadline: Option<u64>,
    /// Where its kvm-clock page is, as its MSR has it.
    pub system_time: Option<u64>,
    /// Where its steal time is.
    pub steal_time: Option<u64>,
}

/// A restored TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredTsc {
    /// The rate of the guest's TSC: within 250 ppm the host's.
    pub frequency: Hertz,
    /// The offset that was set, wrapping.
    pub wanted: u64,
    /// The offset that KVM has now: software KVMs keep it at 0.
    pub offset: u64,
}

impl RestoredTsc {
    /// A TSC of this rate that was given an offset, and the offset that it has.
    pub const fn new(frequency: Hertz, wanted: u64, offset: u64) -> Self {
        Self { frequency, wanted, offset }
    }

    /// By how many cycles the guest's TSC steps: 0 unless KVM kept another offset than the
    /// one that was set.
    pub const fn step(&self) -> i64 {
        self.offset.wrapping_sub(self.wanted).cast_signed()
    }

    /// The same in ns: 263 cycles of 2.1 GHz are 125 ns.
    pub fn step_ns(&self) -> i64 {
        let ns = i128::from(self.step()) * 1_000_000_000 / i128::from(self.frequency.0.max(1));
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }
}

impl SavedTsc {
    /// A TSC of this rate and value, and no more.
    pub const fn new(frequency: Hertz, tsc: u64) -> Self {
        Self { frequency, tsc, adjust: None, deadline: None, system_time: None, steal_time: None }
    }

    /// Saves a vCPU's TSC, as it was when [`save_clock`](crate::save_clock)
    /// returned `taken`. The vCPU has not run since.
    ///
    /// # Errors
    /// KVM's own; Linux before 5.16 has no TSC offset attribute. [`Error::CatchUp`]:
    /// such a TSC has no rate to save.
    pub fn save(vcpu: &impl KvmVcpu, host: HostTsc, taken: HostClocks) -> Result<Self, Error> {
        let frequency = tsc_frequency(vcpu)?;
        let tsc = host.plan(frequency)?.base(taken.tsc).wrapping_add(vcpu.tsc_offset()?);
        let (adjust, deadline) = (vcpu.msr(IA32_TSC_ADJUST)?, vcpu.msr(IA32_TSC_DEADLINE)?);
        let (system_time, steal_time) = (vcpu.msr(KVM_SYSTEM_TIME)?, vcpu.msr(KVM_STEAL_TIME)?);
        Ok(Self { frequency, tsc, adjust, deadline, system_time, steal_time })
    }

    /// Gives the vCPU its rate: first of all, as offsets are in cycles of it.
    ///
    /// # Errors
    /// KVM's own, or this host has no such rate: [`Error::CatchUp`], [`Error::TooSlow`].
    pub fn restore_rate(&self, vcpu: &impl KvmVcpu, host: HostTsc) -> Result<(), Error> {
        host.plan(self.frequency)?;
        if tsc_frequency(vcpu)? != self.frequency {
            vcpu.set_tsc_khz(u32::try_from(self.frequency.0 / 1_000).unwrap_or(u32::MAX))?;
        }
        Ok(())
    }

    /// Sets a vCPU's TSC to where this one continues with the clock: by as many cycles
    /// as the clock has gained ns since the save, so that the two keep their relation
    /// (the sum of Documentation/virt/kvm/devices/vcpu.rst, 4.1); then the timer that
    /// counts in it, and the guest's pages, which are in the restored memory.
    ///
    /// # Errors
    /// KVM's own, or the TSC cannot continue on this host.
    pub fn restore(
        &self,
        vcpu: &impl KvmVcpu,
        id: VcpuId,
        host: HostTsc,
        clock: &RestoredClock,
    ) -> Result<RestoredTsc, Error> {
        let rate = host.plan(self.frequency)?;
        let planned = clock.plan.tsc(id, self.tsc, self.frequency, rate.base(clock.since.tsc))?;
        // A value written by KVM_SET_MSRS would be stale when it arrives, and within 1 s
        // of another vCPU's KVM takes it for an attempt to be equal
        // (kvm_synchronize_tsc).
        let offset = vcpu.set_tsc_offset(planned.tsc_offset)?;
        // KVM does not move the TSC when its host writes this.
        if let Some(adjust) = self.adjust {
            set(vcpu, IA32_TSC_ADJUST, adjust)?;
        }
        // After the TSC: KVM computes from both when the timer fires (Firecracker
        // issue 4099). Without a local APIC of KVM's 0 is read, and nothing is set.
        if let Some(deadline) = self.deadline.filter(|&deadline| deadline != 0) {
            set(vcpu, IA32_TSC_DEADLINE, deadline)?;
        }
        // A page that is switched on is written at the next entry; 0 is none.
        let pages = [(KVM_SYSTEM_TIME, self.system_time), (KVM_STEAL_TIME, self.steal_time)];
        for (msr, page) in pages {
            if let Some(page) = page.filter(|page| page & 1 == 1) {
                set(vcpu, msr, page)?;
            }
        }
        Ok(RestoredTsc { frequency: rate.rate, wanted: planned.tsc_offset, offset })
    }
}

fn set(vcpu: &impl KvmVcpu, msr: u32, value: u64) -> Result<(), Error> {
    if vcpu.set_msr(msr, value)? { Ok(()) } else { Err(Error::Msr { msr, value }) }
}

fn tsc_frequency(vcpu: &impl KvmVcpu) -> Result<Hertz, Error> {
    Ok(Hertz(u64::from(vcpu.tsc_khz()?) * 1_000))
}
