//! The VM's kvm-clock: KVM_GET_CLOCK and KVM_SET_CLOCK.
//!
//! Since Linux 5.16 KVM_GET_CLOCK returns the clock with the time of day and the TSC of
//! one moment, and KVM_SET_CLOCK adds the time of day that passed since one that it is
//! given. So a clock is set *as of* a moment: what passes on the way to the kernel is
//! added there, whatever the policy. Then it is read back: what is left over is
//! corrected, a few times, and reported.

use kvm_bindings::{KVM_CLOCK_HOST_TSC, KVM_CLOCK_REALTIME, kvm_clock_data};
use pvclock::units::UnixTime;
use pvclock::{Nanos, Ticks};
use pvclock_host::{ClockPlan, HostClocks, RestorePolicy, StepBound, VcpuId};

use crate::host_clock::HostReading;
use crate::{Error, HostCapabilities, HostTsc, KvmVm, RestoredTsc};

/// Tries of a reading that a leap second may spoil.
const READS: u32 = 3;
/// How often a clock is set until it is as it should be.
const SETS: u32 = 8;
/// What is good enough, ns: the kernel reads two clocks one after the other.
const GOOD_NS: u64 = 8;
/// What the kernel may be late by; beyond it the time of day stepped.
const LATE_NS: u64 = 100_000;
/// How far the guest's TSC may be from its clock: see [`RestoredClock::check`].
const TSC_STEP: Nanos = Nanos(1_000);
/// Two clocks, each cut to whole ns when it is written and when it is read.
const ROUNDING_NS: u64 = 4;

/// kvm-clock, and the host's clocks of the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedClock {
    /// kvm-clock.
    pub clock: Nanos,
    /// The host's clocks.
    pub taken: HostClocks,
    /// How far the host's TSC and time of day may be from that moment: 0 where KVM
    /// returned them.
    pub width: Nanos,
    /// How far its boot clock may be.
    pub boot_width: Nanos,
}

/// A clock that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredClock {
    /// Where it continued, as of `since`.
    pub plan: ClockPlan,
    /// The host's clocks when the restore began: `plan` is the span from the save to
    /// then, and what passed since.
    pub began: HostClocks,
    /// The host's clocks when it was read back: the TSCs continue from there.
    pub since: HostClocks,
    /// Its value then less the planned one, ns, as measured.
    pub left_over_ns: i64,
    /// How far that measurement may be off.
    pub width: Nanos,
    /// How large a step the guest can see, what was left over included.
    pub step: StepBound,
}

impl RestoredClock {
    /// Whether the TSCs continue with this clock, which a KVM that keeps the offsets it had does
    /// not see to.
    ///
    /// The vCPUs' TSCs must have moved alike, to the cycle: with a difference, time read on one
    /// vCPU and then on another goes back. And together they may be off by what was left over of
    /// setting the clock, or by 1 µs: the guest, which just waited at least 100 µs for its
    /// restore, cannot tell that from the wait. An error of a host's time of day moves clock and
    /// TSCs alike, and excuses nothing here.
    ///
    /// # Errors
    /// [`Error::TscSkew`], [`Error::TscStep`]. Do not run the VM: destroy it, keep what was
    /// saved, and restore it on a host whose KVM sets TSC offsets.
    pub fn check(&self, tscs: &[RestoredTsc]) -> Result<(), Error> {
        let left_over = self.width.0.saturating_add(self.left_over_ns.unsigned_abs());
        let allowed = Nanos(left_over).max(TSC_STEP);
        let first = tscs.first().map_or(0, RestoredTsc::step);
        for (vcpu, tsc) in (0..).map(VcpuId).zip(tscs) {
            let cycles = tsc.step().wrapping_sub(first);
            if cycles != 0 {
                return Err(Error::TscSkew { vcpu, cycles });
            }
            let step_ns = tsc.step_ns();
            if step_ns.unsigned_abs() > allowed.0 {
                return Err(Error::TscStep { vcpu, step_ns, allowed });
            }
        }
        Ok(())
    }
}

/// kvm-clock, and the host's clocks of the same moment: KVM's own where it returns
/// them, else the middle of two readings around the call.
///
/// # Errors
/// KVM's own.
pub fn save_clock(vm: &impl KvmVm, host: HostTsc) -> Result<SavedClock, Error> {
    let mut reads = 0;
    loop {
        reads += 1;
        let (saved, is_whole) = save_once(vm, host)?;
        if is_whole || reads == READS {
            return Ok(saved);
        }
    }
}

/// And whether no leap second came in between, which changes TAI's offset.
fn save_once(vm: &impl KvmVm, host: HostTsc) -> Result<(SavedClock, bool), Error> {
    let HostReading { clocks: before, width } = vm.host_clocks();
    let data = vm.get_clock()?;
    let after = vm.host_clocks().clocks;
    let is_whole = before.tai_offset_s == after.tai_offset_s;
    let reading_ns = ns_of(width, host).div_ceil(2);
    let span_ns = ns_of(after.tsc.0.wrapping_sub(before.tsc.0), host);
    let both = KVM_CLOCK_REALTIME | KVM_CLOCK_HOST_TSC;
    let is_paired = data.flags & both == both;
    let (tsc, since_ns) = if is_paired {
        (data.host_tsc, ns_of(data.host_tsc.saturating_sub(before.tsc.0), host))
    } else {
        let half = after.tsc.0.wrapping_sub(before.tsc.0) / 2;
        (before.tsc.0.wrapping_add(half), span_ns / 2)
    };
    let real = if is_paired { data.realtime } else { before.real.0.0.saturating_add(since_ns) };
    let boot = Nanos(before.boot.0.saturating_add(since_ns));
    let taken = HostClocks::new(Ticks(tsc), boot, UnixTime(Nanos(real)));
    let width = if is_paired { 0 } else { span_ns.div_ceil(2) + reading_ns };
    let saved = SavedClock {
        clock: Nanos(data.clock),
        taken: taken.changed(|new| new.tai_offset_s = before.tai_offset_s),
        width: Nanos(width),
        boot_width: Nanos(width.max(reading_ns)),
    };
    Ok((saved, is_whole))
}

/// Sets kvm-clock to where `saved` continues. `saved_error` is how far the saving
/// host's time of day was off, where that is known. Each vCPU has its
/// [rate](crate::SavedTsc::restore_rate); its TSC is
/// [restored](crate::SavedTsc::restore) after.
///
/// # Errors
/// KVM's own, or the sum exceeds 64 bits.
pub fn restore_clock(
    vm: &impl KvmVm,
    saved: &SavedClock,
    saved_error: Option<Nanos>,
    host: &HostCapabilities,
    policy: RestorePolicy,
) -> Result<RestoredClock, Error> {
    let mut now = save_clock(vm, host.tsc)?;
    if now.width.0 > 0 {
        // A VM that never ran pairs clock and TSC from when its clock was set.
        let clock = saved.clock.0;
        vm.set_clock(&kvm_clock_data { clock, ..Default::default() })?;
        now = save_clock(vm, host.tsc)?;
    }
    let plan = ClockPlan::new(saved.clock, saved.taken, policy, now.taken)?;
    let (mut clock, mut as_of, mut lead_ns, mut sets) = (plan.clock, now.taken, 0_i64, 0);
    let (is, left_over_ns) = loop {
        sets += 1;
        set(vm, Nanos(clock.0.saturating_add_signed(lead_ns)), as_of)?;
        let is = save_clock(vm, host.tsc)?;
        let passed = ns_of(is.taken.tsc.0.wrapping_sub(now.taken.tsc.0), host.tsc);
        let should = plan.clock.0.saturating_add(passed);
        let left_over = is.clock.0.wrapping_sub(should).cast_signed();
        if left_over.unsigned_abs() <= GOOD_NS.max(is.width.0) || sets == SETS {
            break (is, left_over);
        }
        // As of this reading: the time of day may have stepped since the last. What the
        // kernel is late by is much the same each time.
        (clock, as_of) = (Nanos(should), is.taken);
        if left_over.unsigned_abs() < LATE_NS {
            lead_ns -= left_over;
        }
    };
    let widths = match policy {
        RestorePolicy::Hold => [saved.boot_width, now.boot_width],
        _ => [saved.width, now.width],
    };
    let left_over = left_over_ns.unsigned_abs().saturating_add(ROUNDING_NS);
    let here = widths.iter().fold(left_over, |sum, width| sum.saturating_add(width.0));
    let here = here.saturating_add(is.width.0);
    let by_real = policy == RestorePolicy::Advance;
    let errors = saved_error.zip(host.real_error).map(|(then, now)| then.0.saturating_add(now.0));
    let real = if by_real { errors.unwrap_or(0).saturating_add(plan.real_time_back.0) } else { 0 };
    let step = StepBound {
        bound: Nanos(here.saturating_add(real)),
        without_real_time: by_real && errors.is_none(),
        without_tai: by_real && plan.without_tai,
    };
    let plan = plan.read_back(is.clock);
    Ok(RestoredClock {
        plan,
        began: now.taken,
        since: is.taken,
        left_over_ns,
        width: is.width,
        step,
    })
}

/// As of the reading `now`.
fn set(vm: &impl KvmVm, clock: Nanos, now: HostClocks) -> Result<(), Error> {
    let data = kvm_clock_data {
        clock: clock.0,
        flags: KVM_CLOCK_REALTIME,
        realtime: now.real.0.0,
        ..Default::default()
    };
    if vm.set_clock(&data).is_ok() {
        return Ok(());
    }
    // Before 5.16 the flag does not exist: the sum is computed here.
    let passed = vm.host_clocks().clocks.boot.0.saturating_sub(now.boot.0);
    let data = kvm_clock_data { clock: clock.0.saturating_add(passed), ..Default::default() };
    vm.set_clock(&data)
}

/// By the rate that KVM computes its clock with.
fn ns_of(cycles: u64, host: HostTsc) -> u64 {
    let ns = u128::from(cycles) * 1_000_000_000 / u128::from(host.frequency.0.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that was restored within so many ns.
    fn restored(bound: u64) -> RestoredClock {
        let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
        let plan = ClockPlan::new(Nanos(7), now, RestorePolicy::Freeze, now).unwrap();
        let (began, since, left_over_ns, width) = (now, now, 0, Nanos(0));
        let step = StepBound { bound: Nanos(bound), without_real_time: false, without_tai: false };
        RestoredClock { plan, began, since, left_over_ns, width, step }
    }

    /// vCPUs of 2 GHz that KVM left this many cycles from their clock.
    fn tscs(steps: [i64; 2]) -> [RestoredTsc; 2] {
        let frequency = pvclock::Hertz(2_000_000_000);
        steps.map(|step| RestoredTsc {
            frequency,
            wanted: 5,
            offset: 5_u64.wrapping_add_signed(step),
        })
    }

    #[test]
    fn a_tsc_may_be_off_by_as_much_as_its_clock_or_by_a_microsecond() {
        for (bound, step, is_right) in [
            (4, 0, true),
            (4, -263, true),
            (4, 2_000, true),
            (4, 2_002, false),
            (1_500, -3_000, false),
        ] {
            let checked = restored(bound).check(&tscs([step; 2]));
            assert_eq!(checked.is_ok(), is_right, "{bound} {step} {checked:?}");
        }
        let error = restored(4).check(&tscs([-6_000_000_000; 2])).unwrap_err().to_string();
        let expected =
            "KVM kept vCPU 0's TSC offset: the guest's TSC steps by -3000000000 ns, beyond 1000 ns";
        assert_eq!(error, expected);
        assert!(restored(4).check(&[]).is_ok());
    }

    #[test]
    fn tscs_that_moved_apart_are_never_right() {
        let skew = restored(1_000_000).check(&tscs([3, 4]));
        assert!(matches!(skew, Err(Error::TscSkew { vcpu: VcpuId(1), cycles: 1 })), "{skew:?}");
    }
}
