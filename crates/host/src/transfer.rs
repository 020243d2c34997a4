//! Moving a clock: from a saved VM, and the readings of the host it is
//! restored on, to what that host must set.
//!
//! The guest's clock and its TSC both go on from where they stopped, by the
//! same span: none by [`Policy::Freeze`], the real time that passed by
//! [`Policy::Advance`].
//!
//! ```text
//! away   = real now − real at save                    Advance, else 0
//! clock  = clock at save + away
//! tsc    = tsc at save + away · rate / 10^9           of each vCPU
//! offset = tsc − (host's tsc now · ratio)             wrapping
//! ratio  = rate / host's rate                         where hardware scales
//! ```
//!
//! `rate` is what the guest's TSC truly ran at. Where the new host's differs
//! and hardware does not scale, the TSC runs at the new rate from here on and
//! the guest is told so: kvm-clock's page says it; a guest on Hyper-V's is
//! interrupted and may have the old rate emulated until it has taken note.
//!
//! # The step
//!
//! A guest can tell that it was away by what its clock did: the time after
//! less the time before, less what truly passed. That is bounded by the sum of
//! what the two hosts' real time is off by (`Advance`), how far the vCPUs'
//! clocks lay apart, and the roundings of two lines.

use alloc::vec::Vec;
use core::fmt;

use pvclock::{Hertz, Nanos};

use crate::tsc::{Source, cycles};
use crate::{Kind, RatioError, Reading, Saved, Settings, SettingsError, TscMode, TscRatio, VcpuId};

/// Rates this near are one rate to a Hyper-V guest: what KVM takes for one
/// (`tsc_tolerance_ppm`, arch/x86/kvm/x86.c).
const SAME_RATE_PPM: u64 = 250;

/// How the time while the VM was away counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It passed for the guest too.
    Advance,
    /// It did not.
    Freeze,
}

/// What a restore does, and what its VMM has to do: set the ratio, then each
/// vCPU's offset, then run. [`Restored`]'s text is for the log.
///
/// ```
/// use host::{Event, GuestClock, Kind, PlainMemory, Policy, Reading, Settings, VcpuId};
/// use units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| Reading { tsc: Ticks(2 * ns), boot: Nanos(ns), real: UnixTime(Nanos(ns)) };
/// let settings = Settings::new(Kind::Kvm, Hertz(2_000_000_000));
/// let mut host = GuestClock::new(settings, at(0))?;
/// let vcpu = VcpuId(0);
/// host.handle(Event::VcpuCreated { vcpu, tsc_offset: 0 }, at(0), &PlainMemory::new(0));
/// let saved = host.save(at(1_000));
///
/// // A minute later, and none of it the guest's: its TSC is to be set back.
/// let now = at(60_000_001_000);
/// let (host, restored) = GuestClock::restore(&saved, settings, Policy::Freeze, now)?;
/// assert_eq!(host.time(vcpu, now), Nanos(1_000));
/// assert_eq!(restored.vcpus[0].tsc_offset.cast_signed(), -120_000_000_000);
/// assert_eq!(restored.step.bound, Nanos(4));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// As asked for.
    pub policy: Policy,
    /// What the hardware is to scale the TSC by; [`TscRatio::ONE`] if nothing.
    pub ratio: TscRatio,
    /// What the guest is told of its TSC's rate from now on.
    pub told: Hertz,
    /// Whether RDTSC has to be trapped now.
    pub traps_tsc: bool,
    /// Each vCPU's TSC.
    pub vcpus: Vec<RestoredVcpu>,
    /// What the clock says now.
    pub clock: Nanos,
    /// What it said when it was saved.
    pub clock_before: Nanos,
    /// Time that passed for the guest while it was away.
    pub away: Nanos,
    /// Where this host's real time is before that of the save: by how much.
    /// Nothing passed, then.
    pub real_time_back: Nanos,
    /// How large a step its clock can show.
    pub step: StepBound,
    /// An interrupt to give: the TSC has another rate (Hyper-V).
    pub interrupt: Option<Reenlightenment>,
    pub(crate) source: Source,
    pub(crate) unacknowledged: Option<Hertz>,
}

/// A vCPU's TSC after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredVcpu {
    /// Which.
    pub vcpu: VcpuId,
    /// Its TSC when it was saved.
    pub tsc_before: u64,
    /// Its TSC at the reading.
    pub tsc: u64,
    /// That less the host's (scaled) TSC, wrapping: what to set. Where RDTSC is
    /// trapped there is nothing to set.
    pub tsc_offset: u64,
}

/// How large a step can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBound {
    /// As far as is known.
    pub bound: Nanos,
    /// By `Advance`, and a host does not know how far its real time is off:
    /// that comes on top.
    pub without_real_time: bool,
}

/// The interrupt by which a Hyper-V guest learns that its TSC has another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reenlightenment {
    /// Its vector.
    pub vector: u8,
    /// For whom.
    pub vcpu: VcpuId,
}

/// A saved clock that cannot be restored here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Saved of another provider.
    #[error("saved by provider {saved}, to be restored by {asked}")]
    Kind {
        /// Which saved it.
        saved: Kind,
        /// Which was asked for.
        asked: Kind,
    },
    /// The settings make no clock here.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Hardware cannot scale so far.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// The clock would leave its 64 bits.
    #[error("a clock of {clock} and {away} away exceed 64 bits of nanoseconds")]
    Clock {
        /// As saved.
        clock: Nanos,
        /// Since.
        away: Nanos,
    },
    /// More cycles passed than a TSC has.
    #[error("vCPU {}: {away} away at {rate} are more than 2^64 cycles", .vcpu.0)]
    Tsc {
        /// Whose.
        vcpu: VcpuId,
        /// Since.
        away: Nanos,
        /// What its TSC runs at.
        rate: Hertz,
    },
}

impl Restored {
    /// What is to be done to restore `saved` on a host with `settings`, whose
    /// clocks read `now`. Of the settings, the rate told is the saved VM's to
    /// say.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn plan(
        saved: &Saved,
        settings: &Settings,
        policy: Policy,
        now: Reading,
    ) -> Result<Self, RestoreError> {
        if saved.kind != settings.kind {
            return Err(RestoreError::Kind { saved: saved.kind, asked: settings.kind });
        }
        let real_time_back = Nanos(saved.taken_at.0.0.saturating_sub(now.real.0.0));
        let away = match policy {
            Policy::Advance => Nanos(now.real.0.0.saturating_sub(saved.taken_at.0.0)),
            Policy::Freeze => Nanos(0),
        };
        let clock = saved.clock.0.checked_add(away.0).map(Nanos);
        let clock = clock.ok_or(RestoreError::Clock { clock: saved.clock, away })?;
        let Rate { source, ratio, told, unacknowledged } = Rate::of(saved, settings, now)?;
        // What it is told now, and what it is once it has taken note.
        for told in [Some(told), unacknowledged].into_iter().flatten() {
            Settings { advertised_tsc: told, ..*settings }.scale()?;
        }
        let base = source.base(now);
        let place = |vcpu: &crate::saved::SavedVcpu| {
            let passed = u64::try_from(cycles(away, saved.tsc_rate));
            let rate = saved.tsc_rate;
            let passed = passed.map_err(|_| RestoreError::Tsc { vcpu: vcpu.id, away, rate })?;
            let tsc = vcpu.tsc.wrapping_add(passed);
            let tsc_offset = tsc.wrapping_sub(base);
            Ok(RestoredVcpu { vcpu: vcpu.id, tsc_before: vcpu.tsc, tsc, tsc_offset })
        };
        let vcpus = saved.vcpus.iter().map(place).collect::<Result<_, RestoreError>>()?;
        let interrupt = saved.hyperv.wants_interrupt().filter(|_| unacknowledged.is_some());
        Ok(Self {
            policy,
            ratio,
            told,
            traps_tsc: matches!(source, Source::Emulated { .. }),
            vcpus,
            clock,
            clock_before: saved.clock,
            away,
            real_time_back,
            step: step_bound(saved, settings, policy, real_time_back),
            interrupt: interrupt.map(|(vector, vcpu)| Reenlightenment { vector, vcpu }),
            source,
            unacknowledged,
        })
    }
}

fn step_bound(
    saved: &Saved,
    settings: &Settings,
    policy: Policy,
    real_time_back: Nanos,
) -> StepBound {
    // Two lines, each cut to its unit at its beginning and at its reading.
    let roundings = if saved.kind == Kind::HyperV { 400 } else { 4 };
    let known = saved.spread.0.saturating_add(roundings);
    let errors = match (policy, saved.real_time_error, settings.real_time_error) {
        (Policy::Freeze, _, _) => Some(0),
        (Policy::Advance, Some(then), Some(now)) => Some(then.0.saturating_add(now.0)),
        (Policy::Advance, _, _) => None,
    };
    let back = if policy == Policy::Advance { real_time_back.0 } else { 0 };
    let bound = Nanos(known.saturating_add(errors.unwrap_or(0)).saturating_add(back));
    StepBound { bound, without_real_time: errors.is_none() }
}

/// What becomes of the TSC's rate.
struct Rate {
    source: Source,
    ratio: TscRatio,
    told: Hertz,
    unacknowledged: Option<Hertz>,
}

impl Rate {
    fn of(saved: &Saved, settings: &Settings, now: Reading) -> Result<Self, RestoreError> {
        let (before, here) = (saved.tsc_rate, settings.host_tsc);
        let emulated = Source::Emulated { since: now.boot, at: 0, rate: before };
        // A guest that was waiting for its page to be switched on still does.
        let unacknowledged = saved.hyperv.unacknowledged.filter(|&rate| rate == saved.told);
        let kept = |source, ratio| Self { source, ratio, told: saved.told, unacknowledged };
        if settings.tsc_mode == TscMode::Emulated {
            return Ok(kept(emulated, TscRatio::ONE));
        } else if before == here {
            return Ok(kept(Source::unscaled(here), TscRatio::ONE));
        } else if let Some(fraction_bits) = settings.tsc_scaling {
            let ratio = TscRatio::new(before, here, fraction_bits)?;
            return Ok(kept(Source::Real { ratio, rate: before }, ratio));
        }
        // What the guest was told may have been off: it stays off as far.
        let told = u128::from(saved.told.0) * u128::from(here.0) / u128::from(before.0.max(1));
        let told = Hertz(u64::try_from(told).unwrap_or(u64::MAX));
        let source = Source::unscaled(here);
        let ratio = TscRatio::ONE;
        let differs = u128::from(before.0.abs_diff(here.0)) * 1_000_000
            > u128::from(before.0) * u128::from(SAME_RATE_PPM);
        if !differs || saved.hyperv.wants_interrupt().is_none() {
            return Ok(Self { source, ratio, told, unacknowledged: None });
        }
        let unacknowledged = Some(told);
        if saved.hyperv.wants_emulation() && settings.tsc_trapping {
            return Ok(Self { source: emulated, ratio, told: saved.told, unacknowledged });
        }
        Ok(Self { source, ratio, told, unacknowledged })
    }
}

impl fmt::Display for StepBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {}", self.bound)?;
        if self.without_real_time {
            f.write_str(", and what the two hosts' real time is off by, which they do not know")?;
        }
        Ok(())
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            Policy::Advance => "advance: the time away passed for the guest",
            Policy::Freeze => "freeze: no time passed for the guest",
        };
        writeln!(f, "policy {policy}")?;
        if self.real_time_back.0 > 0 {
            let back = self.real_time_back;
            writeln!(f, "this host's real time is {back} before that of the save")?;
        }
        writeln!(f, "clock: {} + {} away = {}", self.clock_before, self.away, self.clock)?;
        writeln!(f, "step of the clock: {}", self.step)?;
        writeln!(f, "TSC: the guest is told {}", self.told)?;
        if self.ratio != TscRatio::ONE {
            writeln!(f, "TSC: scaled by {:#x} · 2^-48", self.ratio.raw())?;
        }
        if self.traps_tsc {
            writeln!(f, "TSC: RDTSC is trapped and answered from the host's clock")?;
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
            writeln!(f, "the guest is told of the new rate: vector {vector:#x}, vCPU {}", vcpu.0)?;
        }
        Ok(())
    }
}
