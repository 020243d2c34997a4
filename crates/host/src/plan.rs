//! The arithmetic of a restore: where a saved clock and each saved TSC
//! continue. There is one plan for all: [`RestoredTransfer::plan`](crate::RestoredTransfer::plan)
//! uses it for a clock that this crate keeps, and crate `pvclock-kvm` for a clock that
//! KVM keeps.
//!
//! ```text
//! away   = by the policy, at least 0
//! clock  = clock at the save + away
//! ratio  = guest's kHz / host's kHz                 where KVM scales, else 1
//! tsc    = TSC at the save + away · guest's rate / 10^9
//! offset = tsc − (host's TSC now · ratio)           modulo 2^64
//! ```
//!
//! # A worked example
//!
//! A guest with a 2 GHz TSC is saved after 5 days: its clock is at 432,000 s
//! and its TSC at 864,000,000,000,000. 60 s later it is restored with
//! [`RestorePolicy::Advance`] on a host whose TSC runs at 2.5 GHz, has counted for 10
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

use crate::tsc::cycles;
use crate::{HostClocks, RatioError, RestoreError, TscRatio, VcpuId};

/// KVM does not scale a rate this close to the host's (`tsc_tolerance_ppm`,
/// kvm_set_tsc_khz, arch/x86/kvm/x86.c).
const TOLERANCE_PPM: u64 = 250;

/// How the time while the VM was away counts.
///
/// | policy | guest's clock and TSC | the date | for |
/// | --- | --- | --- | --- |
/// | advance | continue by real time | right | a migration, a snapshot restored |
/// | freeze | stand | late by the time away | a debugger, a test that must not know |
/// | hold | continue as if the VM had stayed | right | the same host and boot: a VMM restarted |
/// | sleep | stand | to be set in the guest | a snapshot restored after days, without days of timers |
///
/// After a sleep CLOCK_MONOTONIC stands still, and the guest has to learn
/// [`ClockPlan::slept`]: the date by VMClock or a message, which `keep` in the guest
/// sets at once. Without `keep` the date stays late, as after a freeze, and
/// CLOCK_BOOTTIME does in any case: Linux adds a sleep to it for a driver of its own
/// only (timekeeping_inject_sleeptime64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestorePolicy {
    /// It passed for the guest too, by real time (TAI where both hosts know it).
    Advance,
    /// It did not.
    Freeze,
    /// It passed by the boot clock of the host, which never was another.
    Hold,
    /// It did not pass for clock and TSC, and the guest learns the span.
    Sleep,
}

impl RestorePolicy {
    /// All, as named in settings.
    pub const ALL: [Self; 4] = [Self::Advance, Self::Freeze, Self::Hold, Self::Sleep];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Advance => "advance",
            Self::Freeze => "freeze",
            Self::Hold => "hold",
            Self::Sleep => "sleep",
        }
    }
}

/// Where a saved clock continues.
///
/// ```
/// use pvclock_host::{ClockPlan, HostClocks, RestorePolicy, TscPlan, VcpuId};
/// use pvclock::{Hertz, Nanos, Ticks};
/// use pvclock::units::UnixTime;
///
/// let at = |s: u64| {
///     let real = UnixTime(Nanos(1_800_000_000_000_000_000 + s * 1_000_000_000));
///     HostClocks::new(Ticks(0), Nanos(0), real)
/// };
/// let clock = Nanos(432_000_000_000_000);
/// let plan = ClockPlan::new(clock, at(0), RestorePolicy::Advance, at(60))?;
/// assert_eq!(plan.clock, Nanos(432_060_000_000_000));
///
/// let guest = Hertz(2_000_000_000);
/// let rate = TscPlan::new(guest, Hertz(2_500_000_000), Some(48))?;
/// let base = rate.base(Ticks(2_160_000_000_000_000));
/// let vcpu = plan.tsc(VcpuId(0), 864_000_000_000_000, guest, base)?;
/// assert_eq!(vcpu.tsc, 864_120_000_000_000);
/// assert_eq!(vcpu.tsc_offset.cast_signed(), -863_879_999_999_993);
/// # Ok::<(), pvclock_host::RestoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockPlan {
    /// As requested.
    pub policy: RestorePolicy,
    /// The clock when it was saved.
    pub clock_before: Nanos,
    /// The clock now.
    pub clock: Nanos,
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// With [`RestorePolicy::Sleep`] the time that the guest slept, which the VMM has to report to it.
    pub slept: Nanos,
    /// How far this host's real time is behind that of the save, if it is:
    /// then no time passed.
    pub real_time_back: Nanos,
    /// Real time was counted without leap seconds, as a host did not know TAI: the
    /// span may be off by those between the save and now.
    pub without_tai: bool,
}

impl ClockPlan {
    /// Where a clock that was at `clock` when its host's clocks read `taken`
    /// continues, now.
    ///
    /// # Errors
    /// [`RestoreError::Clock`]; [`RestoreError::OtherBoot`] with [`RestorePolicy::Hold`].
    pub fn new(
        clock: Nanos,
        taken: HostClocks,
        policy: RestorePolicy,
        now: HostClocks,
    ) -> Result<Self, RestoreError> {
        let (then, today, without_tai) = match (taken.tai(), now.tai()) {
            (Some(then), Some(today)) => (then.0, today.0, false),
            _ => (taken.real.0.0, now.real.0.0, true),
        };
        let real = Nanos(today.saturating_sub(then));
        let (away, slept) = match policy {
            RestorePolicy::Advance => (real, Nanos(0)),
            RestorePolicy::Freeze => (Nanos(0), Nanos(0)),
            RestorePolicy::Hold => (held(taken, now)?, Nanos(0)),
            RestorePolicy::Sleep => (Nanos(0), real),
        };
        let by_real = matches!(policy, RestorePolicy::Advance | RestorePolicy::Sleep);
        let sum = clock.0.checked_add(away.0).map(Nanos);
        Ok(Self {
            policy,
            clock_before: clock,
            clock: sum.ok_or(RestoreError::Clock { clock, away })?,
            away,
            slept,
            real_time_back: Nanos(then.saturating_sub(today)),
            without_tai: without_tai && by_real,
        })
    }

    /// The same for a clock that was set, and now reads `clock`: TSCs that continue
    /// with this plan keep their relation to it.
    #[must_use]
    pub const fn read_back(self, clock: Nanos) -> Self {
        Self { clock, away: Nanos(clock.0.saturating_sub(self.clock_before.0)), ..self }
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

/// The span by the boot clock. Clocks that are behind are of another boot; whether
/// those ahead are of the same is for the caller to know.
fn held(taken: HostClocks, now: HostClocks) -> Result<Nanos, RestoreError> {
    let span = now.boot.0.checked_sub(taken.boot.0).filter(|_| taken.tsc <= now.tsc);
    span.map(Nanos).ok_or(RestoreError::OtherBoot { taken, now })
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
    /// whose hardware scales with `fraction` bits, if it scales. A rate
    /// within 250 ppm of the host's is not scaled, as KVM does not. For example
    /// 2,000,400 kHz on a host of 2,000,000 kHz: 200 ppm, so the TSC runs at
    /// 2,000,000 kHz.
    ///
    /// # Errors
    /// [`RatioError`].
    pub fn new(guest: Hertz, host: Hertz, fraction_bits: Option<u32>) -> Result<Self, RatioError> {
        match fraction_bits {
            Some(bits) if !Self::is_tolerated(guest, host) => {
                Ok(Self { ratio: TscRatio::new(guest, host, bits)?, rate: guest })
            }
            _ => Ok(Self { ratio: TscRatio::ONE, rate: host }),
        }
    }

    /// Whether KVM takes the two for one rate. It compares kHz, and cuts its limits
    /// to kHz (adjust_tsc_khz, arch/x86/kvm/x86.c).
    pub const fn is_tolerated(guest: Hertz, host: Hertz) -> bool {
        let (guest, host) = (guest.0 / 1_000, host.0 / 1_000);
        let (low, high) = (1_000_000 - TOLERANCE_PPM, 1_000_000 + TOLERANCE_PPM);
        let (host, guest) = (host as u128, guest as u128);
        host * low as u128 / 1_000_000 <= guest && guest <= host * high as u128 / 1_000_000
    }

    /// The host's TSC, scaled: a guest's TSC is this plus its vCPU's offset.
    pub const fn base(self, host_tsc: Ticks) -> u64 {
        self.ratio.apply(host_tsc.0)
    }
}

#[cfg(test)]
mod tests {
    use pvclock::units::UnixTime;

    use super::*;

    const GUEST: Hertz = Hertz(2_000_000_000);
    const HOST: Hertz = Hertz(2_500_000_000);
    const HOST_TSC: Ticks = Ticks(2_160_000_000_000_000);
    const SAVED_TSC: u64 = 864_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn at(s: u64) -> HostClocks {
        let real = UnixTime(Nanos(1_800_000_000 * SECOND + s * SECOND));
        HostClocks::new(Ticks(0), Nanos(0), real)
    }

    fn plan(policy: RestorePolicy, now: HostClocks) -> ClockPlan {
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
        let advance = plan(RestorePolicy::Advance, at(60));
        assert_eq!(advance.clock, Nanos(432_060 * SECOND));
        assert_eq!(offset(advance, tsc), -863_879_999_999_993);
        // Without the 60 s: 864,000,000,000,000 − 1,727,999,999,999,993.
        let freeze = plan(RestorePolicy::Freeze, at(60));
        assert_eq!((freeze.clock, freeze.away), (Nanos(432_000 * SECOND), Nanos(0)));
        assert_eq!(offset(freeze, tsc), -863_999_999_999_993);
    }

    #[test]
    fn the_worked_example_without_scaling() {
        let tsc = TscPlan::new(GUEST, HOST, None).unwrap();
        assert_eq!((tsc.rate, tsc.ratio), (HOST, TscRatio::ONE));
        assert_eq!(offset(plan(RestorePolicy::Advance, at(60)), tsc), -1_295_880_000_000_000);
        // 864,000,000,000,000 − 2,160,000,000,000,000.
        assert_eq!(offset(plan(RestorePolicy::Freeze, at(60)), tsc), -1_296_000_000_000_000);
    }

    #[test]
    fn real_time_that_went_back_adds_nothing() {
        let late = ClockPlan::new(Nanos(7), at(60), RestorePolicy::Advance, at(0)).unwrap();
        assert_eq!((late.clock, late.away), (Nanos(7), Nanos(0)));
        assert_eq!(late.real_time_back, Nanos(60 * SECOND));
    }

    #[test]
    fn sums_beyond_64_bits_are_refused() {
        let end = ClockPlan::new(Nanos(u64::MAX), at(0), RestorePolicy::Advance, at(60));
        let (clock, away) = (Nanos(u64::MAX), Nanos(60 * SECOND));
        assert_eq!(end, Err(RestoreError::Clock { clock, away }));
        // 1.66·10^19 ns at 4 GHz are 6.6·10^19 cycles, and 2^64 are 1.8·10^19.
        let ages =
            plan(RestorePolicy::Advance, at(0).changed(|now| now.real = UnixTime(Nanos(u64::MAX))));
        let rate = Hertz(4_000_000_000);
        let refused = RestoreError::Tsc { vcpu: VcpuId(3), away: ages.away, rate };
        assert_eq!(ages.tsc(VcpuId(3), 0, rate, 0), Err(refused));
    }

    #[test]
    fn a_leap_second_passes_like_any_other() {
        // 10 s of UTC, between which a second was inserted.
        let (taken, now) = (at(0), at(10));
        let [taken, now] = [(taken, 37), (now, 38)]
            .map(|(clocks, tai)| clocks.changed(|new| new.tai_offset_s = Some(tai)));
        let leapt = ClockPlan::new(Nanos(0), taken, RestorePolicy::Advance, now).unwrap();
        assert_eq!((leapt.away, leapt.without_tai), (Nanos(11 * SECOND), false));
        let slept = ClockPlan::new(Nanos(5), taken, RestorePolicy::Sleep, now).unwrap();
        assert_eq!((slept.clock, slept.slept), (Nanos(5), Nanos(11 * SECOND)));
        // One host that does not know TAI is enough.
        let unknown = ClockPlan::new(Nanos(0), at(0), RestorePolicy::Advance, now).unwrap();
        assert_eq!((unknown.away, unknown.without_tai), (Nanos(10 * SECOND), true));
        assert!(!ClockPlan::new(Nanos(0), at(0), RestorePolicy::Freeze, now).unwrap().without_tai);
    }

    #[test]
    fn a_clock_is_held_on_its_own_boot_only() {
        let on = |tsc, boot| at(0).changed(|new| (new.tsc, new.boot) = (Ticks(tsc), Nanos(boot)));
        let day = 86_400 * SECOND;
        let taken = on(2 * day, day);
        let hold = |now| ClockPlan::new(Nanos(7), taken, RestorePolicy::Hold, now);
        let held = hold(on(2 * day + 20 * SECOND, day + 10 * SECOND)).unwrap();
        assert_eq!((held.away, held.clock), (Nanos(10 * SECOND), Nanos(10 * SECOND + 7)));
        for other in [
            on(2 * SECOND, SECOND),
            on(2 * day + 40 * SECOND, day - 1),
            on(2 * day - 1, day + SECOND),
        ] {
            assert_eq!(hold(other), Err(RestoreError::OtherBoot { taken, now: other }));
        }
    }

    #[test]
    fn a_rate_within_250_ppm_is_not_scaled() {
        for (guest, rate) in [
            (2_000_500_000, 2_000_000_000),
            (1_999_500_000, 2_000_000_000),
            (2_000_501_000, 2_000_501_000),
            (1_999_499_000, 1_999_499_000),
        ] {
            let plan = TscPlan::new(Hertz(guest), Hertz(2_000_000_000), Some(48)).unwrap();
            assert_eq!(plan.rate, Hertz(rate), "{guest}");
        }
    }
}
