//! arm64: a guest's counter and its stolen time, by the same plan of a restore.
//!
//! A guest reads CNTVCT: the host's counter less an offset, one for the VM, at one rate
//! (CNTFRQ) that no KVM scales. Linux 6.4 sets the offset (KVM_ARM_SET_COUNTER_OFFSET); before,
//! a vCPU's counter register is written, which is late by the way to the kernel
//! (Documentation/virt/kvm/api.rst, 4.139 and KVM_REG_ARM_TIMER_CNT).
//!
//! The traits are those of any processor, so that the plan is tested on all; they are implemented
//! for kvm-ioctls on arm64. No real KVM of arm64 has run it yet.
#![cfg_attr(target_arch = "aarch64", allow(unsafe_code))]

use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::{ClockPlan, HostClocks, RestorePolicy, VcpuId};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::host_clock::{self, HostReading};

/// Tries of a reading, of which the tightest counts.
const TRIES: u32 = 5;

/// A virtual machine on arm64.
pub trait ArmVm {
    /// KVM_ARM_SET_COUNTER_OFFSET: the host's counter less the guest's; `false` where this KVM has
    /// no such call.
    ///
    /// # Errors
    /// KVM's own.
    fn set_counter_offset(&self, offset: u64) -> Result<bool, Error>;
    /// The host's clocks; its counter is [`HostClocks::tsc`].
    fn host_clocks(&self) -> HostReading {
        host_clock::read_with_width()
    }
}

/// A vCPU on arm64; for its own thread.
pub trait ArmVcpu {
    /// CNTVCT as the guest reads it (KVM_REG_ARM_TIMER_CNT).
    ///
    /// # Errors
    /// KVM's own.
    fn counter(&self) -> Result<u64, Error>;
    /// Sets it, for all vCPUs of the VM.
    ///
    /// # Errors
    /// KVM's own.
    fn set_counter(&self, counter: u64) -> Result<(), Error>;
    /// Where its stolen time is (KVM_ARM_VCPU_PVTIME_IPA); `None` where it has none.
    ///
    /// # Errors
    /// KVM's own.
    fn stolen_time(&self) -> Result<Option<u64>, Error>;
    /// Places its stolen time, once and before it first runs.
    ///
    /// # Errors
    /// KVM's own.
    fn set_stolen_time(&self, address: u64) -> Result<(), Error>;
}

/// The clocks of a VM on arm64, saved; a VMM serializes it into its snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedCounter {
    /// CNTVCT at the save.
    pub counter: u64,
    /// CNTFRQ.
    pub frequency_hz: u64,
    /// The host's counter, its boot clock, its time of day and TAI's offset, at the save.
    pub host_counter: u64,
    /// Its boot clock.
    pub boot_ns: u64,
    /// Its time of day.
    pub real_ns: u64,
    /// TAI's offset.
    pub tai_offset_s: Option<i32>,
    /// Its boot: `Hold` continues on this one alone.
    pub boot_id: Option<String>,
    /// Where each vCPU's stolen time is.
    pub stolen_time: Vec<Option<u64>>,
}

/// A restored counter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredCounter {
    /// How long the guest was away.
    pub plan: ClockPlan,
    /// The host's counter less the guest's.
    pub offset: u64,
    /// How late the counter may be beyond the errors of the hosts' times: 0 where KVM took the
    /// offset.
    pub late: Nanos,
}

/// Saves the counter of a VM and its vCPUs' stolen time; the vCPUs must not run. `frequency` is
/// CNTFRQ.
///
/// # Errors
/// KVM's own.
pub fn save_counter<V: ArmVcpu>(
    vm: &impl ArmVm,
    vcpus: &[&V],
    frequency: Hertz,
) -> Result<SavedCounter, Error> {
    let first = vcpus.first().ok_or(Error::VcpuCount { saved: 0, here: 0 })?;
    let (mut best, mut width) = (None, u64::MAX);
    for _ in 0..TRIES {
        let before = vm.host_clocks().clocks;
        let counter = first.counter()?;
        let took = vm.host_clocks().clocks.tsc.0.wrapping_sub(before.tsc.0);
        if took < width || best.is_none() {
            // Read in the middle, so as of the reading before.
            (best, width) = (Some((before, counter.wrapping_sub(took / 2))), took);
        }
    }
    let (taken, counter) = best.ok_or(Error::VcpuCount { saved: 0, here: 0 })?;
    Ok(SavedCounter {
        counter,
        frequency_hz: frequency.0,
        host_counter: taken.tsc.0,
        boot_ns: taken.boot.0,
        real_ns: taken.real.0.0,
        tai_offset_s: taken.tai_offset_s,
        boot_id: host_clock::boot_id(),
        stolen_time: vcpus.iter().map(|vcpu| vcpu.stolen_time()).collect::<Result<_, _>>()?,
    })
}

/// Places the stolen times, and sets the counter to where the saved one continues. Memory and
/// registers are restored, except for the counter and its timers' compare values, which are set after
/// it; no vCPU has run.
///
/// # Errors
/// [`Error::CounterRate`], [`Error::VcpuCount`], [`Error::OtherBoot`], before anything is set;
/// KVM's own.
pub fn restore_counter<V: ArmVcpu>(
    vm: &impl ArmVm,
    vcpus: &[&V],
    saved: &SavedCounter,
    frequency: Hertz,
    policy: RestorePolicy,
) -> Result<RestoredCounter, Error> {
    let (was, here) = (Hertz(saved.frequency_hz), frequency);
    if was != here {
        return Err(Error::CounterRate { saved: was, here });
    }
    let (first, count) = (vcpus.first(), vcpus.len());
    let Some(first) = first.filter(|_| saved.stolen_time.len() == count) else {
        return Err(Error::VcpuCount { saved: saved.stolen_time.len(), here: count });
    };
    let boot_id = host_clock::boot_id();
    if policy == RestorePolicy::Hold && (boot_id.is_none() || boot_id != saved.boot_id) {
        return Err(Error::OtherBoot);
    }
    let real = UnixTime(Nanos(saved.real_ns));
    let taken = HostClocks::new(Ticks(saved.host_counter), Nanos(saved.boot_ns), real);
    let taken = taken.changed(|new| new.tai_offset_s = saved.tai_offset_s);
    let now = vm.host_clocks().clocks;
    let plan = ClockPlan::new(Nanos(0), taken, policy, now)?;
    let planned = plan.tsc(VcpuId(0), saved.counter, frequency, now.tsc.0)?;
    for (vcpu, address) in vcpus.iter().zip(&saved.stolen_time) {
        if let Some(address) = address {
            vcpu.set_stolen_time(*address)?;
        }
    }
    let offset = planned.tsc_offset.wrapping_neg();
    if vm.set_counter_offset(offset)? {
        return Ok(RestoredCounter { plan, offset, late: Nanos(0) });
    }
    let before = vm.host_clocks().clocks.tsc.0;
    first.set_counter(before.wrapping_sub(offset))?;
    let late = vm.host_clocks().clocks.tsc.0.wrapping_sub(before);
    let late_ns = u128::from(late) * 1_000_000_000 / u128::from(frequency.0.max(1));
    Ok(RestoredCounter { plan, offset, late: Nanos(u64::try_from(late_ns).unwrap_or(u64::MAX)) })
}

/// The calls of kvm-ioctls.
///
/// # Invariants
/// 1. Each call reads or writes the one value that it is passed, which lives as long as the call.
#[cfg(target_arch = "aarch64")]
mod calls {
    use kvm_bindings::{KVM_ARM_VCPU_PVTIME_CTRL, KVM_ARM_VCPU_PVTIME_IPA, KVMIO, kvm_device_attr};
    use kvm_ioctls::{VcpuFd, VmFd};
    use vmm_sys_util::ioctl::ioctl_with_ref;
    use vmm_sys_util::ioctl_iow_nr;

    use super::{ArmVcpu, ArmVm};
    use crate::Error;

    ioctl_iow_nr!(KVM_ARM_SET_COUNTER_OFFSET, KVMIO, 0xb5, CounterOffset);
    ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);
    ioctl_iow_nr!(KVM_GET_DEVICE_ATTR, KVMIO, 0xe2, kvm_device_attr);

    /// CNTVCT, as KVM numbers it: op0 3, op1 3, CRn 14, CRm 3, op2 2
    /// (arch/arm64/include/uapi/asm/kvm.h, where it and the compare value have each other's).
    const KVM_REG_ARM_TIMER_CNT: u64 = 0x6030_0000_0013_df1a;

    /// struct kvm_arm_counter_offset.
    #[repr(C)]
    struct CounterOffset {
        counter_offset: u64,
        reserved: u64,
    }

    impl ArmVm for VmFd {
        fn set_counter_offset(&self, offset: u64) -> Result<bool, Error> {
            let offset = CounterOffset { counter_offset: offset, reserved: 0 };
            // SAFETY: invariant 1; the kernel reads the struct.
            let result = unsafe { ioctl_with_ref(self, KVM_ARM_SET_COUNTER_OFFSET(), &offset) };
            if result == 0 {
                return Ok(true);
            }
            let error = kvm_ioctls::Error::last();
            let is_unknown = matches!(error.errno(), libc::EINVAL | libc::ENOTTY);
            let call = "KVM_ARM_SET_COUNTER_OFFSET";
            if is_unknown { Ok(false) } else { Err(Error::Call { call, error }) }
        }
    }

    impl ArmVcpu for VcpuFd {
        fn counter(&self) -> Result<u64, Error> {
            let mut bytes = [0; 8];
            let read = self.get_one_reg(KVM_REG_ARM_TIMER_CNT, &mut bytes);
            read.map_err(Error::call("KVM_GET_ONE_REG(KVM_REG_ARM_TIMER_CNT)"))?;
            Ok(u64::from_le_bytes(bytes))
        }

        fn set_counter(&self, counter: u64) -> Result<(), Error> {
            let bytes = counter.to_le_bytes();
            let written = self.set_one_reg(KVM_REG_ARM_TIMER_CNT, &bytes);
            written.map(drop).map_err(Error::call("KVM_SET_ONE_REG(KVM_REG_ARM_TIMER_CNT)"))
        }

        fn stolen_time(&self) -> Result<Option<u64>, Error> {
            let mut address = u64::MAX;
            let attribute = pvtime(&mut address);
            // SAFETY: invariant 1; the attribute is a u64, written to `address`.
            let result = unsafe { ioctl_with_ref(self, KVM_GET_DEVICE_ATTR(), &attribute) };
            // A KVM without the attribute gives no stolen time; all ones are no address.
            let address = std::hint::black_box(address);
            Ok(Some(address).filter(|address| result == 0 && *address != u64::MAX))
        }

        fn set_stolen_time(&self, address: u64) -> Result<(), Error> {
            let mut address = address;
            let attribute = pvtime(&mut address);
            // SAFETY: invariant 1; the attribute is a u64, read from `address`.
            let result = unsafe { ioctl_with_ref(self, KVM_SET_DEVICE_ATTR(), &attribute) };
            if result == 0 {
                return Ok(());
            }
            let call = "KVM_SET_DEVICE_ATTR(KVM_ARM_VCPU_PVTIME_IPA)";
            Err(Error::Call { call, error: kvm_ioctls::Error::last() })
        }
    }

    fn pvtime(address: &mut u64) -> kvm_device_attr {
        kvm_device_attr {
            group: KVM_ARM_VCPU_PVTIME_CTRL,
            attr: KVM_ARM_VCPU_PVTIME_IPA.into(),
            addr: std::ptr::from_mut(address).expose_provenance() as u64,
            flags: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const RATE: Hertz = Hertz(SECOND / 40);

    /// A KVM whose host counts at 25 MHz, and whose calls take 4 µs: 100 cycles.
    struct Model {
        ns: Cell<u64>,
        offset: Cell<u64>,
        takes_offset: bool,
        stolen: RefCell<Option<u64>>,
    }

    impl Model {
        fn at(s: u64, offset: u64, takes_offset: bool) -> Self {
            let (ns, offset) = (Cell::new(s * SECOND), Cell::new(offset));
            Self { ns, offset, takes_offset, stolen: RefCell::default() }
        }

        fn host(&self) -> u64 {
            self.ns.get() / 40
        }

        fn takes(&self) {
            self.ns.set(self.ns.get() + 4_000);
        }
    }

    impl ArmVm for Model {
        fn set_counter_offset(&self, offset: u64) -> Result<bool, Error> {
            self.takes();
            if self.takes_offset {
                self.offset.set(offset);
            }
            Ok(self.takes_offset)
        }

        fn host_clocks(&self) -> HostReading {
            let real = UnixTime(Nanos(1_800_000_000 * SECOND + self.ns.get()));
            let clocks = HostClocks::new(Ticks(self.host()), Nanos(self.ns.get()), real);
            HostReading { clocks, width: 0 }
        }
    }

    impl ArmVcpu for Model {
        fn counter(&self) -> Result<u64, Error> {
            self.takes();
            let counter = self.host().wrapping_sub(self.offset.get());
            self.takes();
            Ok(counter)
        }

        fn set_counter(&self, counter: u64) -> Result<(), Error> {
            self.takes();
            self.offset.set(self.host().wrapping_sub(counter));
            Ok(())
        }

        fn stolen_time(&self) -> Result<Option<u64>, Error> {
            Ok(*self.stolen.borrow())
        }

        fn set_stolen_time(&self, address: u64) -> Result<(), Error> {
            self.stolen.replace(Some(address));
            Ok(())
        }
    }

    fn saved() -> (Model, SavedCounter) {
        let from = Model::at(100, 50_000_000, true);
        from.stolen.replace(Some(0x9000));
        let saved = save_counter(&from, &[&from], RATE).unwrap();
        // 100 s and the offset's 2 s less.
        assert_eq!((saved.counter, saved.host_counter), (98 * RATE.0, 100 * RATE.0));
        (from, serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap())
    }

    #[test]
    fn the_counter_continues_by_the_policy() {
        let (_, saved) = saved();
        for (policy, passed_s) in [(RestorePolicy::Advance, 60), (RestorePolicy::Freeze, 0)] {
            // Another host, 60 s later by the time of day.
            let to = Model::at(160, 0, true);
            let restored = restore_counter(&to, &[&to], &saved, RATE, policy).unwrap();
            assert_eq!((restored.late, restored.plan.away), (Nanos(0), Nanos(passed_s * SECOND)));
            let guest = 160 * RATE.0 - to.offset.get();
            assert_eq!(guest, (98 + passed_s) * RATE.0, "{policy:?}");
            assert_eq!(*to.stolen.borrow(), Some(0x9000));
        }
    }

    #[test]
    fn a_kvm_without_the_offset_is_late_and_says_by_how_much() {
        let (_, saved) = saved();
        let to = Model::at(160, 0, false);
        let restored = restore_counter(&to, &[&to], &saved, RATE, RestorePolicy::Advance).unwrap();
        assert_eq!(restored.late, Nanos(4_000));
        assert_eq!(to.offset.get().wrapping_sub(restored.offset), 100);
    }

    #[test]
    fn what_cannot_continue_is_refused_before_anything_is_set() {
        let (from, saved) = saved();
        let to = Model::at(160, 7, true);
        let restore = |saved: &SavedCounter, vcpus: &[&Model], rate, policy| {
            restore_counter(&to, vcpus, saved, rate, policy).unwrap_err()
        };
        let other = restore(&saved, &[&to], Hertz(24_000_000), RestorePolicy::Advance);
        let expected = "the saved counter runs at 25000000 Hz, this host's at 24000000 Hz";
        assert_eq!(other.to_string(), expected);
        let count = restore(&saved, &[&to, &to], RATE, RestorePolicy::Advance);
        assert!(matches!(count, Error::VcpuCount { saved: 1, here: 2 }));
        let moved = SavedCounter { boot_id: None, ..saved.clone() };
        let hold = restore(&moved, &[&to], RATE, RestorePolicy::Hold);
        assert!(matches!(hold, Error::OtherBoot));
        assert_eq!((to.offset.get(), *to.stolen.borrow()), (7, None));
        assert!(save_counter(&from, &[] as &[&Model], RATE).is_err());
    }
}
