//! A saved clock on the host that restores it: what that host must set, and
//! how large a step the guest can see.
//!
//! The guest's clock and its TSC both continue from where they stopped, by the
//! same span, which the [`RestorePolicy`] decides. The sums are those of `plan.rs`.
//!
//! Where the new host's TSC has another rate and hardware does not scale, the
//! guest's TSC runs at the new rate from here on and the advertised frequency
//! changes: kvm-clock's page states it; a guest that uses Hyper-V's page is
//! interrupted, and may have the old rate emulated until it acknowledges.
//!
//! # The step
//!
//! A guest can detect that it was away by what its clock did: the time after
//! less the time before, less what truly passed. That is bounded by the sum of
//! the errors of the two hosts' real time (`Advance`), the spread of the vCPUs'
//! clocks, and the rounding of two snapshots.

use alloc::vec::Vec;
use core::fmt;

use pvclock::{Hertz, Nanos};

use crate::plan::{ClockPlan, RestorePolicy, RestoredVcpu, TscPlan};
use crate::saved::SavedContents;
use crate::tsc::Source;
use crate::{
    ClockProvider, ClockSettings, HostClocks, RatioError, SavedGuestClock, SettingsError, TscMode,
    TscRatio, VcpuId,
};

/// The result of a restore, and what its VMM has to do: set each vCPU's rate (KVM_SET_TSC_KHZ
/// with [`tsc_rate`](Self::tsc_rate), rounded to kHz) or ratio, then its offset, then run. A vCPU
/// that was saved at a rate of its own keeps that, which `tsc_rate` does not show; a TSC that is
/// trapped ([`traps_tsc`](Self::traps_tsc)) leaves the hardware's as it is. Its text is for the log.
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, ClockProvider, PlainMemory, RestorePolicy, HostClocks, ClockSettings, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| HostClocks::new(Ticks(2 * ns), Nanos(ns), UnixTime(Nanos(ns)));
/// let settings = ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000));
/// let mut host = GuestClock::new(settings, at(0))?;
/// let vcpu = VcpuId(0);
/// host.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, at(0), &PlainMemory::new(0));
/// let saved = host.save(at(1_000));
///
/// // A minute later, none of which passes for the guest: its TSC is set back.
/// let now = at(60_000_001_000);
/// let (host, restored) = GuestClock::restore(&saved, settings, RestorePolicy::Freeze, now)?;
/// assert_eq!(host.time(vcpu, now), Nanos(1_000));
/// assert_eq!(restored.tsc_rate, Hertz(2_000_000_000));
/// assert_eq!(restored.vcpus[0].tsc_offset.cast_signed(), -120_000_000_000);
/// assert_eq!(restored.step.bound, Nanos(4));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredTransfer {
    /// As requested.
    pub policy: RestorePolicy,
    /// The true rate of the guest's TSC from now on. KVM takes whole kHz, and computes the
    /// ratio itself.
    pub tsc_rate: Hertz,
    /// By which factor the hardware must scale the TSC; [`TscRatio::ONE`] if
    /// it must not. For a VMM that programs the hardware.
    pub ratio: TscRatio,
    /// The TSC frequency that the guest is given from now on.
    pub advertised_tsc: Hertz,
    /// Whether RDTSC has to be trapped now.
    pub traps_tsc: bool,
    /// Each vCPU's TSC.
    pub vcpus: Vec<RestoredVcpu>,
    /// The guest's clock now.
    pub clock: Nanos,
    /// The guest's clock when it was saved.
    pub clock_before: Nanos,
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// How far this host's real time is behind that of the save, if it is:
    /// then no time passed.
    pub real_time_back: Nanos,
    /// With [`RestorePolicy::Sleep`] the time that the guest slept, which the VMM has to report to it.
    pub slept: Nanos,
    /// How large a step the guest's clock can show.
    pub step: StepBound,
    /// An interrupt to inject: the TSC has another rate (Hyper-V).
    pub interrupt: Option<Reenlightenment>,
    pub(crate) source: Source,
    /// Each vCPU's.
    pub(crate) sources: Vec<Source>,
    pub(crate) unacknowledged: Option<Hertz>,
}

/// How large a step can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBound {
    /// As far as it is known.
    pub bound: Nanos,
    /// With `Advance`, where a host does not know the error of its real time:
    /// that error adds to the bound.
    pub without_real_time: bool,
    /// With `Advance`, where a host does not know TAI: a leap second in between adds.
    pub without_tai: bool,
}

/// The interrupt that notifies a Hyper-V guest of another TSC rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reenlightenment {
    /// Its vector.
    pub vector: u8,
    /// The vCPU that gets it.
    pub vcpu: VcpuId,
}

/// Why a saved clock cannot be restored here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Another provider saved it.
    #[error(
        "the clock was saved by provider {saved} and cannot be restored by provider {requested}"
    )]
    Provider {
        /// The provider that saved it.
        saved: ClockProvider,
        /// The provider that is to restore it.
        requested: ClockProvider,
    },
    /// The settings are invalid here.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The hardware cannot scale so far.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// A clock cannot be held across boots or hosts: this host's clocks are behind
    /// those of the save.
    #[error(
        "hold: the clock was saved at boot time {} and TSC {}; here they are {} and {}",
        .taken.boot, .taken.tsc.0, .now.boot, .now.tsc.0
    )]
    OtherBoot {
        /// At the save.
        taken: HostClocks,
        /// Now.
        now: HostClocks,
    },
    /// The guest was promised an invariant TSC, and this host would run it at another rate.
    #[error(
        "the guest was promised an invariant TSC of {promised}; here it would run at {here}: \
         restore it on a host that scales the TSC or has that rate"
    )]
    InvariantTsc {
        /// The rate when it was saved.
        promised: Hertz,
        /// The rate that its TSC would have.
        here: Hertz,
    },
    /// The clock would exceed its 64 bits.
    #[error("a clock of {clock} and {away} away exceed 64 bits of nanoseconds")]
    Clock {
        /// As saved.
        clock: Nanos,
        /// Time since then.
        away: Nanos,
    },
    /// More cycles passed than a TSC can count.
    #[error("vCPU {}: {away} away at {rate} are more than 2^64 cycles", .vcpu.0)]
    Tsc {
        /// The vCPU.
        vcpu: VcpuId,
        /// Time since the save.
        away: Nanos,
        /// The rate of its TSC.
        rate: Hertz,
    },
}

impl RestoredTransfer {
    /// What to do to restore `saved` on a host with `settings`, whose clocks
    /// read `now`. The advertised TSC frequency is the saved VM's, not that of
    /// the settings.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn plan(
        saved: &SavedGuestClock,
        settings: &ClockSettings,
        policy: RestorePolicy,
        now: HostClocks,
    ) -> Result<Self, RestoreError> {
        let saved = &saved.0;
        if saved.kind != settings.kind {
            return Err(RestoreError::Provider { saved: saved.kind, requested: settings.kind });
        }
        let plan = ClockPlan::new(saved.clock, saved.taken, policy, now)?;
        let TransferRate { source, ratio, advertised_tsc, unacknowledged } =
            TransferRate::plan(saved, settings, now)?;
        let (promised, here) = (saved.tsc_rate, source.rate());
        let is_kept = settings.tsc_invariant
            && unacknowledged.is_none()
            && TscPlan::is_tolerated(promised, here);
        if saved.hyperv.invariant_control == 1 && !is_kept {
            return Err(RestoreError::InvariantTsc { promised, here });
        }
        // The frequency now, and the one after the guest has acknowledged.
        for advertised_tsc in [Some(advertised_tsc), unacknowledged].into_iter().flatten() {
            ClockSettings { advertised_tsc, ..*settings }.scale()?;
        }
        let mut vcpus = Vec::with_capacity(saved.vcpus.len());
        let mut sources = Vec::with_capacity(saved.vcpus.len());
        for vcpu in &saved.vcpus {
            let source = if vcpu.rate == saved.tsc_rate {
                source
            } else {
                source.at_rate(vcpu.rate, settings, now)?
            };
            vcpus.push(plan.tsc(vcpu.id, vcpu.tsc, vcpu.rate, source.base(now))?);
            sources.push(source);
        }
        let interrupt = saved.hyperv.wants_interrupt().filter(|_| unacknowledged.is_some());
        Ok(Self {
            policy,
            tsc_rate: here,
            ratio,
            advertised_tsc,
            traps_tsc: matches!(source, Source::Emulated { .. }),
            vcpus,
            clock: plan.clock,
            clock_before: plan.clock_before,
            away: plan.away,
            real_time_back: plan.real_time_back,
            slept: plan.slept,
            step: step_bound(saved, settings, &plan),
            interrupt: interrupt.map(|(vector, vcpu)| Reenlightenment { vector, vcpu }),
            source,
            sources,
            unacknowledged,
        })
    }
}

/// For example, with `Advance`: 300 ns and 50 ns of real-time error, vCPUs that
/// agree, kvm-clock: 300 + 50 + 0 + 4 = 354 ns.
fn step_bound(saved: &SavedContents, settings: &ClockSettings, plan: &ClockPlan) -> StepBound {
    // Two snapshots, each cut to its unit when it is taken and when it is read.
    let roundings = if saved.kind == ClockProvider::HyperV { 400 } else { 4 };
    let known = saved.spread.0.saturating_add(roundings);
    let (errors, back) = match (plan.policy, saved.real_error_ns, settings.real_time_error) {
        (RestorePolicy::Freeze | RestorePolicy::Hold | RestorePolicy::Sleep, _, _) => (Some(0), 0),
        (RestorePolicy::Advance, Some(then), Some(now)) => {
            (Some(then.saturating_add(now.0)), plan.real_time_back.0)
        }
        (RestorePolicy::Advance, _, _) => (None, plan.real_time_back.0),
    };
    let bound = Nanos(known.saturating_add(errors.unwrap_or(0)).saturating_add(back));
    let without_tai = plan.without_tai && plan.policy == RestorePolicy::Advance;
    StepBound { bound, without_real_time: errors.is_none(), without_tai }
}

/// What becomes of the TSC's rate.
struct TransferRate {
    source: Source,
    ratio: TscRatio,
    advertised_tsc: Hertz,
    unacknowledged: Option<Hertz>,
}

impl TransferRate {
    fn plan(
        saved: &SavedContents,
        settings: &ClockSettings,
        now: HostClocks,
    ) -> Result<Self, RestoreError> {
        let (before, here) = (saved.tsc_rate, settings.host_tsc);
        let emulated = Source::Emulated { since: now.boot, at: 0, rate: before };
        // A guest that waited for its page to be switched on still waits.
        let unacknowledged =
            saved.hyperv.unacknowledged.filter(|&rate| rate == saved.advertised_tsc);
        let kept = |source, ratio| Self {
            source,
            ratio,
            advertised_tsc: saved.advertised_tsc,
            unacknowledged,
        };
        if settings.tsc_mode == TscMode::Emulated {
            return Ok(kept(emulated, TscRatio::ONE));
        }
        let TscPlan { ratio, rate } = TscPlan::new(before, here, settings.tsc_scaling)?;
        let source = Source::Real { ratio, rate };
        if rate == before {
            return Ok(kept(source, ratio));
        }
        // An error of the advertised frequency stays, in proportion.
        let advertised = u128::from(saved.advertised_tsc.0) * u128::from(here.0);
        let advertised = advertised / u128::from(before.0.max(1));
        let advertised_tsc = Hertz(u64::try_from(advertised).unwrap_or(u64::MAX));
        if TscPlan::is_tolerated(before, here) || saved.hyperv.wants_interrupt().is_none() {
            return Ok(Self { source, ratio, advertised_tsc, unacknowledged: None });
        }
        let unacknowledged = Some(advertised_tsc);
        if saved.hyperv.wants_emulation() && settings.tsc_trapping {
            let advertised_tsc = saved.advertised_tsc;
            return Ok(Self { source: emulated, ratio, advertised_tsc, unacknowledged });
        }
        Ok(Self { source, ratio, advertised_tsc, unacknowledged })
    }
}

impl fmt::Display for StepBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {}", self.bound)?;
        if self.without_real_time {
            f.write_str(" plus the real-time errors of the two hosts, which are unknown")?;
        }
        if self.without_tai {
            f.write_str(", and any leap second in between, as TAI is unknown")?;
        }
        Ok(())
    }
}

impl fmt::Display for RestoredTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            RestorePolicy::Advance => "advance: the time away passed for the guest",
            RestorePolicy::Freeze => "freeze: no time passed for the guest",
            RestorePolicy::Hold => "hold: time passed for the guest by this host's own clock",
            RestorePolicy::Sleep => "sleep: the guest slept; report to it for how long",
        };
        writeln!(f, "policy {policy}")?;
        if self.real_time_back.0 > 0 {
            let back = self.real_time_back;
            writeln!(f, "this host's real time is {back} earlier than the time of the save")?;
        }
        writeln!(f, "clock: {} + {} away = {}", self.clock_before, self.away, self.clock)?;
        if self.slept.0 > 0 {
            writeln!(f, "slept: {}", self.slept)?;
        }
        writeln!(f, "step of the clock: {}", self.step)?;
        writeln!(f, "TSC: advertised as {}", self.advertised_tsc)?;
        if self.ratio != TscRatio::ONE {
            writeln!(f, "TSC: scaled by {:#x} · 2^-48", self.ratio.raw())?;
        }
        if self.traps_tsc {
            writeln!(f, "TSC: RDTSC is trapped and emulated from the host's clock")?;
        }
        for RestoredVcpu { vcpu, tsc_before, tsc, tsc_offset } in &self.vcpus {
            let passed = tsc.wrapping_sub(*tsc_before);
            writeln!(
                f,
                "TSC of vCPU {}: {tsc_before} + {passed} = {tsc}; offset {}",
                vcpu.0,
                tsc_offset.cast_signed()
            )?;
        }
        if let Some(Reenlightenment { vector, vcpu }) = self.interrupt {
            writeln!(f, "TSC: new rate, interrupt vector {vector:#x} on vCPU {}", vcpu.0)?;
        }
        Ok(())
    }
}
