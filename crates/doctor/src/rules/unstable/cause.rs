//! Why the kernel marked the TSC unstable: by its message, or by the size and
//! sign of the figures.

use facts::kernel::{LogEvent, LogLine};

use super::counter::WatchdogCounter;
use super::interval::{WatchdogInterval, WatchdogReference};
use super::rate::{self, ACPI_PM_HZ};
use crate::case::Case;

/// A cause, with the figures that show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UnstableCause {
    /// No `constant_tsc` on several CPUs: assumed to disagree.
    NotSynchronised,
    /// One CPU was seen behind another.
    Warp,
    /// It stops when the CPU idles deeply.
    Halts,
    /// It follows the CPU's frequency.
    FollowsFrequency,
    /// No frequency could be found for it.
    NotCalibrated,
    /// The same, because the kernel was told not to use the other timers.
    WithoutAcpi,
    /// KVM saw it smaller after a suspend of this host.
    HostBackward,
    /// It was smaller than half a second before, by this many cycles.
    Backward { cycles: Option<u64> },
    /// The reference counts timer ticks, which come late or not at all.
    TickReference,
    /// The reference answered with all ones.
    ReferenceSilent,
    /// The reference gave the same value twice.
    ReferenceStands,
    /// The reference was smaller than before, by this many ns.
    ReferenceBackward { by_ns: f64 },
    /// The reference counted over half of its range, which the kernel takes
    /// for nothing; with this many wraps it agrees with the TSC.
    ReferenceDiscarded { counted_ns: f64, times: u32, wrap_ns: f64, tsc_hz: Option<f64> },
    /// The reference's counter wrapped this many times.
    ReferenceWrapped { times: u32, wrap_ns: f64, rest_ns: f64 },
    /// The difference is a power of two of nanoseconds, less a rest.
    Overflow { power: u32, rest_ns: f64 },
    /// The same of a negative interval, which the kernel took as unsigned.
    SignLost { power: u32, by_ns: f64 },
    /// A difference that grew to the kernel's limit over so long.
    Drifted { by_ns: f64, after_s: f64 },
    /// A test provoked the message.
    Forced,
    /// The hypervisor's page, which is computed from the TSC, is off by so much.
    PageOff { by_ns: f64 },
    /// A difference and no counters.
    Unexplained { by_ns: f64 },
    /// Two clocks that differ in one check, of which one is wrong.
    /// `by_emulation`: of the reads, those of an emulated HPET may be late.
    OneCheck { by_ns: f64, by_emulation: bool },
    /// The two agree by their counters over so long: the check was late, and what the
    /// kernel computed overflowed.
    CheckLate { length_ns: f64 },
    /// A second reference agrees with the TSC, and shows that the first is off by so much.
    ReferenceWrong { by_ns: f64, witness: String },
    /// The hypervisor's page leapt by so much after a CPU was added.
    PageLeapt { by_ns: f64 },
    /// It gained seconds at once, or the reference lost them.
    JumpedAhead { by_ns: Option<f64> },
    /// It stopped, or was set back, while the reference advanced.
    /// `by_page`: by the hypervisor's page, which counts while the host sleeps.
    Stopped { by_ns: Option<f64>, by_page: bool },
    /// The lines cannot be as the kernel printed them.
    Damaged { what: String },
    /// One of the two reads was late: a busy host, an SMI.
    ReadLate,
    /// It runs at another rate than the kernel assumes; `is_refined`: the kernel's later
    /// calibration gave that rate.
    WrongRate { ppm: f64, form: WatchdogForm, is_refined: bool },
    /// As small as a wrong rate would make it, but after this long without: a jump.
    Jumped { by_ns: f64, after_s: f64, form: WatchdogForm },
    /// The log has the counters, but not the TSC's rate: the rates that fit,
    /// by the number of wraps of the reference.
    RateUnknown { fits: Vec<(u32, f64)> },
    /// The log does not show it.
    NotLogged,
}

/// How the kernel's watchdog read the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchdogForm {
    /// One after the other, before 5.13.
    Apart,
    /// The TSC between two reads of the reference at most 0.1 ms or so apart.
    Bracketed,
    /// The same within 50 µs, late checks discarded: from
    /// 7.1 on.
    Rewritten,
}

/// The range of the ACPI PM timer's 24 bits.
const ACPI_PM_WRAP_NS: f64 = 16_777_216.0 / ACPI_PM_HZ * 1e9;

/// Two clocks that agree by their counters over at least this had a late check, ns: 0.5 s
/// is usual.
const LONG_NS: f64 = 5e9;

/// A CPU's addition explains a leap of the page for so long, s.
const ADDED_S: f64 = 30.0;

/// Low-power CPUs have base frequencies down to 0.8 GHz: a slower estimate is
/// of a TSC that stopped.
const SLOWEST_HZ: f64 = 0.7e9;

/// No TSC is so fast.
const MOST_HZ: f64 = 6e9;

/// More wraps of 4.69 s fit one difference in fifty by chance.
const MOST_WRAPS_ALONE: f64 = 30.0;

/// More wraps fit any rate.
const MOST_WRAPS: u32 = 8;

impl UnstableCause {
    /// Whether it is the check that failed, not the TSC.
    pub(super) fn acquits(&self) -> bool {
        matches!(
            self,
            Self::TickReference
                | Self::ReferenceSilent
                | Self::ReferenceStands
                | Self::ReferenceBackward { .. }
                | Self::ReferenceDiscarded { .. }
                | Self::ReferenceWrapped { .. }
                | Self::Overflow { .. }
                | Self::Drifted { .. }
                | Self::PageOff { .. }
                | Self::Forced
                | Self::CheckLate { .. }
                | Self::ReferenceWrong { .. }
                | Self::PageLeapt { .. }
                | Self::ReadLate
        )
    }

    /// Whether the reference may be the clock that was off.
    pub(super) fn may_be_references(&self) -> bool {
        matches!(
            self,
            Self::ReferenceStands
                | Self::ReferenceBackward { .. }
                | Self::ReferenceWrong { .. }
                | Self::PageOff { .. }
                | Self::PageLeapt { .. }
                | Self::JumpedAhead { .. }
                | Self::OneCheck { .. }
                | Self::Unexplained { .. }
        )
    }

    /// By the kernel's message: arch/x86/kernel/tsc.c, tsc_sync.c, process.c,
    /// arch/x86/kvm/x86.c, drivers/acpi/processor_idle.c,
    /// drivers/idle/intel_idle.c, kernel/time/clocksource.c (7.1).
    pub(super) fn by_message(because: &str) -> Option<Self> {
        const MESSAGES: [(&str, UnstableCause); 10] = [
            ("losing too many ticks", UnstableCause::TickReference),
            ("running slowly", UnstableCause::Halts),
            ("TSCs unsynchronized", UnstableCause::NotSynchronised),
            ("check_tsc_sync_source failed", UnstableCause::Warp),
            ("inter CPU skew", UnstableCause::Warp),
            ("TSC halt", UnstableCause::Halts),
            ("cpufreq changes", UnstableCause::FollowsFrequency),
            ("could not calculate TSC", UnstableCause::NotCalibrated),
            ("backwards TSC", UnstableCause::HostBackward),
            ("UV BIOS", UnstableCause::NotSynchronised),
        ];
        MESSAGES.into_iter().find(|(part, _)| because.contains(part)).map(|(_, cause)| cause)
    }

    /// What the counters show whatever the size of the skew.
    pub(super) fn by_reference(case: &Case<'_>, interval: &WatchdogInterval) -> Option<Self> {
        if let Some(cycles) = interval.backward() {
            return Some(Self::Backward { cycles });
        }
        if let Some(cause) = Self::witnessed(interval).or_else(|| Self::agreed(interval)) {
            return Some(cause);
        }
        let wrapped = || Self::wrapped(case, interval);
        let Some(reference) = &interval.reference else { return wrapped() };
        // The PIT's clock source adds its counter to jiffies (drivers/clocksource/i8253.c).
        if reference.name.contains("jiffies") || reference.name == "pit" {
            return Some(Self::TickReference);
        }
        match reference.counter {
            Some(counter) if counter.is_no_answer() => Some(Self::ReferenceSilent),
            Some(counter) if counter.stands() => Some(Self::ReferenceStands),
            Some(counter) if counter.is_discarded() => Self::discarded(reference, interval),
            _ => wrapped(),
        }
        .or_else(|| Self::estimated(reference, interval))
    }

    /// A second reference that agrees with the TSC.
    fn witnessed(interval: &WatchdogInterval) -> Option<Self> {
        let second = interval.second.as_ref()?;
        let skew_ns = interval.skew_ns?;
        let by_skew = || Some(interval.reference_ns? + skew_ns);
        let tsc_ns = interval.tsc_ns.or_else(by_skew)?;
        let apart_ns = (tsc_ns - second.counted_ns?).abs();
        (apart_ns < skew_ns.abs() / 10.0)
            .then(|| Self::ReferenceWrong { by_ns: 0.0 - skew_ns, witness: second.name.clone() })
    }

    /// The two agree by their counters, far beyond the usual half second.
    fn agreed(interval: &WatchdogInterval) -> Option<Self> {
        let reference = interval.reference.as_ref()?;
        let length_ns = reference.counted_ns?;
        let agree = match interval.tsc_ns {
            Some(tsc_ns) => (tsc_ns - length_ns).abs() <= interval.slack_ns(length_ns),
            // A page has no wraps, so one rate alone fits.
            None => reference.is_page() && PLAUSIBLE_HZ.contains(&interval.tsc_hz_over(length_ns)?),
        };
        let discarded = reference.counter.is_some_and(WatchdogCounter::is_discarded);
        (agree && !discarded && length_ns > LONG_NS).then_some(Self::CheckLate { length_ns })
    }

    /// A hypervisor's page that ran ahead of a TSC which counted its usual half second,
    /// just after a CPU was added.
    pub(super) fn leapt(interval: &WatchdogInterval, log: &[LogLine], at: usize) -> Option<Self> {
        let reference = interval.reference.as_ref().filter(|reference| reference.is_page())?;
        let counted_ns = reference.counted_ns?;
        // Of an unknown rate: the ticks that half a second may have.
        let is_usual = match interval.tsc_ns {
            Some(tsc_ns) => tsc_ns < LATE_NS,
            None => interval.tsc_hz_over(USUAL_NS).is_some_and(|hz| PLAUSIBLE_HZ.contains(&hz)),
        };
        let by_ns = counted_ns - interval.tsc_ns.unwrap_or(USUAL_NS);
        let added = log[..at].iter().rev().any(|line| {
            let near = line.at_s.zip(log[at].at_s).is_none_or(|(then, now)| now - then < ADDED_S);
            near && line.event == LogEvent::CpuAdded
        });
        let leapt = added && is_usual && by_ns > counted_ns / 2.0;
        leapt.then_some(Self::PageLeapt { by_ns })
    }

    /// The kernel took the reference's ticks for nothing.
    fn discarded(reference: &WatchdogReference, interval: &WatchdogInterval) -> Option<Self> {
        let (counted_ns, wrap_ns) = reference.counted_ns.zip(reference.wrap_ns)?;
        let tsc_ns = interval.tsc_ns?;
        if let Some(times) = reference.wraps(tsc_ns, interval.slack_ns(tsc_ns)) {
            return Some(Self::ReferenceDiscarded { counted_ns, times, wrap_ns, tsc_hz: None });
        }
        // A step back is told by a check on time alone: what a late one counted is not known.
        let is_on_time = tsc_ns < counted_ns.min(LATE_NS);
        is_on_time.then_some(Self::ReferenceBackward { by_ns: wrap_ns - counted_ns })
    }

    /// The reference counted too little by whole wraps of its counter.
    fn wrapped(case: &Case<'_>, interval: &WatchdogInterval) -> Option<Self> {
        let skew_ns = interval.skew_ns?;
        let Some(reference) = &interval.reference else {
            return Self::wrapped_alone(case, skew_ns);
        };
        let wrap_ns = reference.wrap_ns?;
        let times = (skew_ns / wrap_ns).round();
        let rest_ns = skew_ns - times * wrap_ns;
        let slack_ns = interval.slack_ns(skew_ns + interval.reference_ns.unwrap_or_default());
        (times >= 1.0 && rest_ns.abs() <= slack_ns).then_some(Self::ReferenceWrapped {
            times: times as u32,
            wrap_ns,
            rest_ns,
        })
    }

    /// The same of a difference without a reference: kernels before 3.13 name none. Of
    /// several that fit, the fewest wraps.
    fn wrapped_alone(case: &Case<'_>, skew_ns: f64) -> Option<Self> {
        let hpet_ns = rate::HPET_HZ.map(|hz| 4_294_967_296.0 / hz * 1e9);
        let acpi_pm_ns = (!case.offers("hpet")).then_some(ACPI_PM_WRAP_NS);
        // Both reads and the TSC's calibration: 0.27 to 7 ms in the known cases.
        let slack_ns = 5e6 + skew_ns * 1e-4;
        let fits = hpet_ns.into_iter().chain(acpi_pm_ns).filter_map(|wrap_ns| {
            let times = (skew_ns / wrap_ns).round();
            let rest_ns = skew_ns - times * wrap_ns;
            let fits = (1.0..=MOST_WRAPS_ALONE).contains(&times) && rest_ns.abs() <= slack_ns;
            fits.then_some((times as u32, wrap_ns, rest_ns))
        });
        let (times, wrap_ns, rest_ns) = fits.min_by_key(|(times, ..)| *times)?;
        Some(Self::ReferenceWrapped { times, wrap_ns, rest_ns })
    }

    /// Without the TSC's rate: the rates it had if the reference was right, by
    /// wraps of the reference.
    fn estimated(reference: &WatchdogReference, interval: &WatchdogInterval) -> Option<Self> {
        if interval.tsc_ns.is_some() || interval.skew_ns.is_some() {
            return None;
        }
        // Where no rate fits by the reference's assumed one, another may.
        let plausible = |reference: &WatchdogReference| {
            let hz = reference.counted_ns.and_then(|ns| interval.tsc_hz_over(ns));
            hz.is_some_and(|hz| PLAUSIBLE_HZ.contains(&hz))
        };
        let is_discarded = reference.counter.is_some_and(WatchdogCounter::is_discarded);
        let other = reference.with_other_rates().find(plausible);
        let reference = match &other {
            Some(other) if is_discarded && !plausible(reference) => other,
            _ => reference,
        };
        let counted_ns = reference.counted_ns?;
        let wrap_ns = reference.wrap_ns.unwrap_or_default();
        let hz = |times| interval.tsc_hz_over(counted_ns + f64::from(times) * wrap_ns);
        let most = if reference.wrap_ns.is_some() { MOST_WRAPS } else { 0 };
        let fits: Vec<_> = (0..=most)
            .filter_map(|times| Some((times, hz(times)?)))
            .filter(|(_, hz)| PLAUSIBLE_HZ.contains(hz))
            .collect();
        let discarded = reference.counter.is_some_and(WatchdogCounter::is_discarded);
        Some(match (fits.as_slice(), hz(0)) {
            ([(times, tsc_hz)], _) if discarded => Self::ReferenceDiscarded {
                counted_ns,
                times: *times,
                wrap_ns,
                tsc_hz: Some(*tsc_hz),
            },
            ([_, ..], _) => Self::RateUnknown { fits },
            (_, Some(hz))
                if hz < SLOWEST_HZ
                    || (reference.is_page()
                        && counted_ns > LATE_NS
                        && hz < *PLAUSIBLE_HZ.start()) =>
            {
                Self::Stopped { by_ns: None, by_page: reference.is_page() }
            }
            (_, Some(hz)) if hz < *PLAUSIBLE_HZ.start() => {
                Self::RateUnknown { fits: vec![(0, hz)] }
            }
            // Overclocked, or after a short interval; beyond it no rate explains the ticks.
            (_, Some(hz)) if hz < MOST_HZ => Self::RateUnknown { fits: vec![(0, hz)] },
            (_, Some(_)) => Self::JumpedAhead { by_ns: None },
            _ => return None,
        })
    }
}

impl WatchdogForm {
    pub(super) fn infer(because: &str, interval: &WatchdogInterval) -> Self {
        if because.contains("frequency skew") {
            Self::Rewritten
        } else if interval.bracketed {
            Self::Bracketed
        } else {
            Self::Apart
        }
    }
}

/// Late reads that the watchdog logged in the ten minutes before line `at`.
pub(super) fn delays_before(log: &[LogLine], at: usize) -> impl Iterator<Item = &LogLine> {
    const NEAR_S: f64 = 600.0;
    let when_s = log[at].at_s;
    log[..at].iter().rev().filter(move |line| {
        let near = line.at_s.zip(when_s).is_none_or(|(one, other)| other - one < NEAR_S);
        near && matches!(
            line.event,
            LogEvent::WatchdogDelayed { .. } | LogEvent::WatchdogSkipped { .. }
        )
    })
}

/// Twice what two bracketed reads may differ by: 125 µs each
/// (kernel/time/clocksource.c, WATCHDOG_MAX_SKEW), at both ends.
pub(super) const BRACKETED_LATE_NS: f64 = 1e6;

/// The watchdog's interval, ns.
pub(super) const USUAL_NS: f64 = 0.5e9;

/// Twice the watchdog's interval when it is on time, 0.5 s.
pub(super) const LATE_NS: f64 = 1e9;

/// Usual rates of the TSCs of x86-64 CPUs, Hz: what an estimate may give.
pub(super) const PLAUSIBLE_HZ: std::ops::RangeInclusive<f64> = 1.5e9..=5e9;
