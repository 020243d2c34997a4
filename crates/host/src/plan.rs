//! The arithmetic of a restore: where a saved clock and each saved TSC
//! continue. There is one plan for all: [`Restored::plan`](crate::Restored::plan)
//! uses it for a clock that this crate keeps, and crate `kvm` for a clock that
//! KVM keeps.
//!
//! ```text
//! away   = real time now − real time at the save    Advance, at least 0; Freeze: 0
//! clock  = clock at the save + away
//! ratio  = guest's rate / host's rate               where hardware scales, else 1
//! tsc    = TSC at the save + away · guest's rate / 10^9
//! offset = tsc − (host's TSC now · ratio)           modulo 2^64
//! ```
//!
//! # A worked example
//!
//! A guest with a 2 GHz TSC is saved after 5 days: its clock is at 432,000 s
//! and its TSC at 864,000,000,000,000. 60 s later it is restored with
//! [`Policy::Advance`] on a host whose TSC runs at 2.5 GHz, has counted for 10
//! days and is at 2,160,000,000,000,000.
//!
//! | | scaling with 48 bits of fraction | no scaling |
//! | --- | --- | --- |
//! | clock | 432,000 s + 60 s = 432,060 s | the same |
//! | ratio | 2 / 2.5 · 2^48 = 225,179,981,368,524 (.8 is cut) | 1 |
//! | guest's TSC | 864,000,000,000,000 + 60 · 2·10^9 = 864,120,000,000,000 | the same |
//! | host's TSC · ratio | 1,727,999,999,999,993 | 2,160,000,000,000,000 |
//! | offset | −863,879,999,999,993 | −1,295,880,000,000,000 |
//! | the TSC runs at | 2 GHz | 2.5 GHz from now on |
//!
//! The cut ratio makes the scaled TSC 7 cycles less than exactly 4/5 of the
//! host's. The offset contains those 7 cycles, so the guest's TSC continues at
//! exactly the value that the plan states.

use pvclock::{Hertz, Nanos, Ticks};
use units::UnixTime;

use crate::tsc::cycles;
use crate::{RatioError, RestoreError, TscRatio, VcpuId};

/// How the time while the VM was away counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It passed for the guest too.
    Advance,
    /// It did not.
    Freeze,
}

/// Where a saved clock continues.
///
/// ```
/// use host::{ClockPlan, Policy, TscPlan, VcpuId};
/// use pvclock::{Hertz, Nanos, Ticks};
/// use units::UnixTime;
///
/// let at = |s: u64| UnixTime(Nanos(1_800_000_000_000_000_000 + s * 1_000_000_000));
/// let clock = Nanos(432_000_000_000_000);
/// let plan = ClockPlan::new(clock, at(0), Policy::Advance, at(60))?;
/// assert_eq!(plan.clock, Nanos(432_060_000_000_000));
///
/// let guest = Hertz(2_000_000_000);
/// let rate = TscPlan::new(guest, Hertz(2_500_000_000), Some(48))?;
/// let base = rate.base(Ticks(2_160_000_000_000_000));
/// let vcpu = plan.tsc(VcpuId(0), 864_000_000_000_000, guest, base)?;
/// assert_eq!(vcpu.tsc, 864_120_000_000_000);
/// assert_eq!(vcpu.tsc_offset.cast_signed(), -863_879_999_999_993);
/// # Ok::<(), host::RestoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockPlan {
    /// As requested.
    pub policy: Policy,
    /// The clock when it was saved.
    pub clock_before: Nanos,
    /// The clock now.
    pub clock: Nanos,
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// How far this host's real time is behind that of the save, if it is:
    /// then no time passed.
    pub real_time_back: Nanos,
}

impl ClockPlan {
    /// Where a clock that was at `clock` at the real time `taken_at` continues
    /// at the real time `now`.
    ///
    /// # Errors
    /// [`RestoreError::Clock`].
    pub fn new(
        clock: Nanos,
        taken_at: UnixTime,
        policy: Policy,
        now: UnixTime,
    ) -> Result<Self, RestoreError> {
        let (then, now) = (taken_at.0.0, now.0.0);
        let away = match policy {
            Policy::Advance => Nanos(now.saturating_sub(then)),
            Policy::Freeze => Nanos(0),
        };
        let sum = clock.0.checked_add(away.0).map(Nanos);
        Ok(Self {
            policy,
            clock_before: clock,
            clock: sum.ok_or(RestoreError::Clock { clock, away })?,
            away,
            real_time_back: Nanos(then.saturating_sub(now)),
        })
    }

    /// Where a vCPU's TSC continues that was at `tsc_before` and ran at `rate`.
    /// `base` is this host's TSC now, scaled ([`TscPlan::base`]).
    ///
    /// # Errors
    /// [`RestoreError::Tsc`].
    pub fn tsc(
        &self,
        vcpu: VcpuId,
        tsc_before: u64,
        rate: Hertz,
        base: u64,
    ) -> Result<RestoredVcpu, RestoreError> {
        let away = self.away;
        let passed = u64::try_from(cycles(away, rate));
        let passed = passed.map_err(|_| RestoreError::Tsc { vcpu, away, rate })?;
        let tsc = tsc_before.wrapping_add(passed);
        Ok(RestoredVcpu { vcpu, tsc_before, tsc, tsc_offset: tsc.wrapping_sub(base) })
    }
}

/// A vCPU's TSC after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredVcpu {
    /// Which vCPU.
    pub vcpu: VcpuId,
    /// Its TSC when it was saved.
    pub tsc_before: u64,
    /// Its TSC at the reading.
    pub tsc: u64,
    /// That less the host's (scaled) TSC, wrapping: the offset to set. Where
    /// RDTSC is trapped there is nothing to set.
    pub tsc_offset: u64,
}

/// What a guest's TSC runs at on the host where it is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TscPlan {
    /// Guest cycles for each cycle of the host's TSC.
    pub ratio: TscRatio,
    /// The rate of the guest's TSC from now on: its own where hardware scales,
    /// else the host's.
    pub rate: Hertz,
}

impl TscPlan {
    /// For a TSC that ran at `guest`, on a host whose TSC runs at `host` and
    /// whose hardware scales with so many bits of fraction, if it scales.
    ///
    /// # Errors
    /// [`RatioError`].
    pub fn new(guest: Hertz, host: Hertz, fraction_bits: Option<u32>) -> Result<Self, RatioError> {
        match fraction_bits {
            Some(bits) if guest != host => {
                Ok(Self { ratio: TscRatio::new(guest, host, bits)?, rate: guest })
            }
            _ => Ok(Self { ratio: TscRatio::ONE, rate: host }),
        }
    }

    /// The host's TSC, scaled: a guest's TSC is this plus its vCPU's offset.
    pub const fn base(self, host_tsc: Ticks) -> u64 {
        self.ratio.apply(host_tsc.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: Hertz = Hertz(2_000_000_000);
    const HOST: Hertz = Hertz(2_500_000_000);
    const HOST_TSC: Ticks = Ticks(2_160_000_000_000_000);
    const SAVED_TSC: u64 = 864_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn at(s: u64) -> UnixTime {
        UnixTime(Nanos(1_800_000_000 * SECOND + s * SECOND))
    }

    fn plan(policy: Policy, now: UnixTime) -> ClockPlan {
        ClockPlan::new(Nanos(432_000 * SECOND), at(0), policy, now).unwrap()
    }

    fn offset(plan: ClockPlan, tsc: TscPlan) -> i64 {
        let vcpu = plan.tsc(VcpuId(0), SAVED_TSC, GUEST, tsc.base(HOST_TSC)).unwrap();
        assert_eq!(vcpu.tsc, tsc.base(HOST_TSC).wrapping_add(vcpu.tsc_offset));
        vcpu.tsc_offset.cast_signed()
    }

    #[test]
    fn the_worked_example_where_hardware_scales() {
        let tsc = TscPlan::new(GUEST, HOST, Some(48)).unwrap();
        assert_eq!((tsc.rate, tsc.ratio.raw()), (GUEST, 225_179_981_368_524));
        assert_eq!(tsc.base(HOST_TSC), 1_727_999_999_999_993);
        let advance = plan(Policy::Advance, at(60));
        assert_eq!(advance.clock, Nanos(432_060 * SECOND));
        assert_eq!(offset(advance, tsc), -863_879_999_999_993);
        // Without the 60 s: 864,000,000,000,000 − 1,727,999,999,999,993.
        let freeze = plan(Policy::Freeze, at(60));
        assert_eq!((freeze.clock, freeze.away), (Nanos(432_000 * SECOND), Nanos(0)));
        assert_eq!(offset(freeze, tsc), -863_999_999_999_993);
    }

    #[test]
    fn the_worked_example_without_scaling() {
        let tsc = TscPlan::new(GUEST, HOST, None).unwrap();
        assert_eq!((tsc.rate, tsc.ratio), (HOST, TscRatio::ONE));
        assert_eq!(offset(plan(Policy::Advance, at(60)), tsc), -1_295_880_000_000_000);
        // 864,000,000,000,000 − 2,160,000,000,000,000.
        assert_eq!(offset(plan(Policy::Freeze, at(60)), tsc), -1_296_000_000_000_000);
    }

    #[test]
    fn real_time_that_went_back_adds_nothing() {
        let late = ClockPlan::new(Nanos(7), at(60), Policy::Advance, at(0)).unwrap();
        assert_eq!((late.clock, late.away), (Nanos(7), Nanos(0)));
        assert_eq!(late.real_time_back, Nanos(60 * SECOND));
    }

    #[test]
    fn sums_beyond_64_bits_are_refused() {
        let end = ClockPlan::new(Nanos(u64::MAX), at(0), Policy::Advance, at(60));
        let (clock, away) = (Nanos(u64::MAX), Nanos(60 * SECOND));
        assert_eq!(end, Err(RestoreError::Clock { clock, away }));
        // 1.66·10^19 ns at 4 GHz are 6.6·10^19 cycles, and 2^64 are 1.8·10^19.
        let ages = plan(Policy::Advance, UnixTime(Nanos(u64::MAX)));
        let rate = Hertz(4_000_000_000);
        let refused = RestoreError::Tsc { vcpu: VcpuId(3), away: ages.away, rate };
        assert_eq!(ages.tsc(VcpuId(3), 0, rate, 0), Err(refused));
    }
}
