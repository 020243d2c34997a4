//! Why the kernel marked the TSC unstable: by its message, or by the size and
//! sign of the figures.

use super::counter::Counter;
use super::interval::{Interval, Reference};
use super::rate::ACPI_PM_HZ;
use crate::case::Case;
use facts::kernel::{LogEvent, LogLine};

/// A cause, with the figures that show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cause {
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
    /// The difference is a power of two of nanoseconds.
    Overflow { power: u32 },
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
    /// It runs at another rate than the kernel assumes.
    WrongRate { ppm: f64, form: Form },
    /// As small as a wrong rate would make it, but after this long without: a jump.
    Jumped { by_ns: f64, after_s: f64, form: Form },
    /// The log has the counters, but not the TSC's rate: the rates that fit,
    /// by the number of wraps of the reference.
    RateUnknown { fits: Vec<(u32, f64)> },
    /// The log does not show it.
    NotLogged,
}

/// How the kernel's watchdog read the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One after the other, before `kernel_clock::watchdog::BRACKETED`.
    Apart,
    /// The TSC between two reads of the reference at most 0.1 ms or so apart.
    Bracketed,
    /// The same within 50 µs, late checks discarded: from
    /// `kernel_clock::watchdog::REWRITTEN` on.
    Rewritten,
}

/// The range of the ACPI PM timer's 24 bits.
const ACPI_PM_WRAP_NS: f64 = 16_777_216.0 / ACPI_PM_HZ * 1e9;

/// A difference this close to a power of two of nanoseconds is no accident.
const OVERFLOW_TOLERANCE: f64 = 1e-5;

/// No quartz and no calibration is wrong by more: beyond it, something happened
/// in the interval. The worst known calibration was 2.3 % off.
const RATE_LIMIT_PPM: f64 = 30_000.0;

/// Twice what two bracketed reads may differ by: 125 µs each
/// (kernel/time/clocksource.c, WATCHDOG_MAX_SKEW), at both ends.
pub(super) const BRACKETED_LATE_NS: f64 = 1e6;

/// The first checks find a rate that is wrong from the start: they begin once the TSC is
/// registered, about a second after boot, and come each half second.
const SETTLED_S: f64 = 15.0;

/// Two clocks that agree by their counters over at least this had a late check, ns: 0.5 s
/// is usual.
const LONG_NS: f64 = 5e9;

/// The watchdog's interval, ns.
const USUAL_NS: f64 = 0.5e9;

/// A CPU's addition explains a leap of the page for so long, s.
const ADDED_S: f64 = 30.0;

/// Twice the watchdog's interval when it is on time, 0.5 s.
const LATE_NS: f64 = 1e9;

/// Usual rates of the TSCs of x86-64 CPUs, Hz: what an estimate may give.
const PLAUSIBLE_HZ: std::ops::RangeInclusive<f64> = 1.5e9..=5e9;

/// Low-power CPUs have base frequencies down to 0.8 GHz: a slower estimate is
/// of a TSC that stopped.
const SLOWEST_HZ: f64 = 0.7e9;

/// More wraps fit any rate.
const MOST_WRAPS: u32 = 8;

impl Cause {
    /// The cause of the verdict in line `at`.
    pub(super) fn infer(
        case: &Case<'_>,
        log: &[LogLine],
        at: usize,
        because: &str,
        interval: Option<&Interval>,
    ) -> Self {
        if let Some(cause) = Self::by_message(because) {
            return cause;
        }
        let late = delays_before(log, at).next().is_some();
        if let Some(what) = interval.and_then(|interval| interval.damage.clone()) {
            return Self::Damaged { what };
        }
        if let Some(interval) = interval {
            let form = Form::infer(because, interval);
            let seen = Seen { form, late, at_s: log[at].at_s };
            return Self::leapt(interval, log, at)
                .or_else(|| Self::by_reference(case, interval))
                .or_else(|| Self::by_skew(interval, &seen))
                .unwrap_or(Self::NotLogged);
        }
        // "hpet read-back delay of 215423ns, attempt 4, marking unstable"
        if delays_before(log, at).any(|line| line.text.contains("unstable")) {
            Self::ReadLate
        } else {
            Self::NotLogged
        }
    }

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
                | Self::CheckLate { .. }
                | Self::ReferenceWrong { .. }
                | Self::PageLeapt { .. }
                | Self::ReadLate
        )
    }

    /// By the kernel's message: arch/x86/kernel/tsc.c, tsc_sync.c, process.c,
    /// arch/x86/kvm/x86.c, drivers/acpi/processor_idle.c,
    /// drivers/idle/intel_idle.c, kernel/time/clocksource.c (7.1).
    fn by_message(because: &str) -> Option<Self> {
        const MESSAGES: [(&str, Cause); 8] = [
            ("TSCs unsynchronized", Cause::NotSynchronised),
            ("check_tsc_sync_source failed", Cause::Warp),
            ("inter CPU skew", Cause::Warp),
            ("TSC halt", Cause::Halts),
            ("cpufreq changes", Cause::FollowsFrequency),
            ("could not calculate TSC", Cause::NotCalibrated),
            ("backwards TSC", Cause::HostBackward),
            ("UV BIOS", Cause::NotSynchronised),
        ];
        MESSAGES.into_iter().find(|(part, _)| because.contains(part)).map(|(_, cause)| cause)
    }

    /// What the counters show whatever the size of the skew.
    fn by_reference(case: &Case<'_>, interval: &Interval) -> Option<Self> {
        if let Some(cycles) = interval.backward() {
            return Some(Self::Backward { cycles });
        }
        if let Some(cause) = Self::witnessed(interval).or_else(|| Self::agreed(interval)) {
            return Some(cause);
        }
        let wrapped = || Self::wrapped(case, interval);
        let Some(reference) = &interval.reference else { return wrapped() };
        if reference.name.contains("jiffies") {
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
    fn witnessed(interval: &Interval) -> Option<Self> {
        let second = interval.second.as_ref()?;
        let skew_ns = interval.skew_ns?;
        let by_skew = || Some(interval.reference_ns? + skew_ns);
        let tsc_ns = interval.tsc_ns.or_else(by_skew)?;
        let apart_ns = (tsc_ns - second.counted_ns?).abs();
        (apart_ns < skew_ns.abs() / 10.0)
            .then(|| Self::ReferenceWrong { by_ns: 0.0 - skew_ns, witness: second.name.clone() })
    }

    /// The two agree by their counters, far beyond the usual half second.
    fn agreed(interval: &Interval) -> Option<Self> {
        let reference = interval.reference.as_ref()?;
        let length_ns = reference.counted_ns?;
        let agree = match interval.tsc_ns {
            Some(tsc_ns) => (tsc_ns - length_ns).abs() <= interval.slack_ns(length_ns),
            // A page has no wraps, so one rate alone fits.
            None => reference.is_page() && PLAUSIBLE_HZ.contains(&interval.tsc_hz_over(length_ns)?),
        };
        let discarded = reference.counter.is_some_and(Counter::is_discarded);
        (agree && !discarded && length_ns > LONG_NS).then_some(Self::CheckLate { length_ns })
    }

    /// A hypervisor's page that ran ahead of a TSC which counted its usual half second,
    /// just after a CPU was added.
    fn leapt(interval: &Interval, log: &[LogLine], at: usize) -> Option<Self> {
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
    fn discarded(reference: &Reference, interval: &Interval) -> Option<Self> {
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
    fn wrapped(case: &Case<'_>, interval: &Interval) -> Option<Self> {
        let logged = interval.reference.as_ref().and_then(|reference| reference.wrap_ns);
        // Kernels before 3.13 name no reference; only an hpet would come before acpi_pm.
        let short_counter = interval.reference.is_none() && !case.offers("hpet");
        let wrap_ns = logged.or(short_counter.then_some(ACPI_PM_WRAP_NS))?;
        let skew_ns = interval.skew_ns?;
        let times = (skew_ns / wrap_ns).round();
        let rest_ns = skew_ns - times * wrap_ns;
        let slack_ns = interval.slack_ns(skew_ns + interval.reference_ns.unwrap_or_default());
        (times >= 1.0 && rest_ns.abs() <= slack_ns).then_some(Self::ReferenceWrapped {
            times: times as u32,
            wrap_ns,
            rest_ns,
        })
    }

    /// Without the TSC's rate: the rates it had if the reference was right, by
    /// wraps of the reference.
    fn estimated(reference: &Reference, interval: &Interval) -> Option<Self> {
        if interval.tsc_ns.is_some() || interval.skew_ns.is_some() {
            return None;
        }
        // Where no rate fits by the reference's assumed one, another may.
        let plausible = |reference: &Reference| {
            let hz = reference.counted_ns.and_then(|ns| interval.tsc_hz_over(ns));
            hz.is_some_and(|hz| PLAUSIBLE_HZ.contains(&hz))
        };
        let is_discarded = reference.counter.is_some_and(Counter::is_discarded);
        let other = reference.with_other_rates().find(plausible);
        let reference = match &other {
            Some(other) if is_discarded && !plausible(reference) => other,
            _ => reference,
        };
        let counted_ns = reference.counted_ns?;
        let wrap_ns = reference.wrap_ns.unwrap_or_default();
        let hz = |times| interval.tsc_hz_over(counted_ns + f64::from(times) * wrap_ns);
        let fits: Vec<_> = (0..=MOST_WRAPS)
            .filter_map(|times| Some((times, hz(times)?)))
            .filter(|(_, hz)| PLAUSIBLE_HZ.contains(hz))
            .collect();
        let discarded = reference.counter.is_some_and(Counter::is_discarded);
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
            (_, Some(_)) => Self::JumpedAhead { by_ns: None },
            _ => return None,
        })
    }

    /// By the size and sign of the skew.
    fn by_skew(interval: &Interval, seen: &Seen) -> Option<Self> {
        let skew_ns = interval.skew_ns?;
        let power = skew_ns.abs().log2().round();
        let exact = power.exp2();
        if power >= 32.0 && (skew_ns.abs() - exact).abs() < exact * OVERFLOW_TOLERANCE {
            return Some(Self::Overflow { power: power as u32 });
        }
        // Without the interval, its usual half second. Where no late read can
        // be the cause, what is no rate is a jump.
        let length_ns = interval.reference_ns.filter(|ns| *ns > 0.0);
        let large = if seen.form == Form::Apart { 0.4 } else { RATE_LIMIT_PPM / 1e6 };
        let large_ns = length_ns.map_or(0.4e9, |ns| large * ns);
        // The TSC lost most of the interval: it stopped, or was reset.
        if skew_ns < -large_ns {
            let by_page = interval.reference.as_ref().is_some_and(Reference::is_page);
            return Some(Self::Stopped { by_ns: Some(skew_ns.abs()), by_page });
        }
        if skew_ns > large_ns {
            return Some(Self::JumpedAhead { by_ns: Some(skew_ns) });
        }
        let late = match seen.form {
            Form::Apart => length_ns.is_none_or(|ns| ns > LATE_NS) || seen.late,
            Form::Bracketed => skew_ns.abs() < BRACKETED_LATE_NS && seen.late,
            Form::Rewritten => false,
        };
        let Some(ppm) = interval.ppm().filter(|_| !late) else { return Some(Self::ReadLate) };
        let form = seen.form;
        if ppm.abs() > RATE_LIMIT_PPM && form == Form::Apart {
            return Some(Self::ReadLate);
        }
        Some(match seen.at_s.filter(|at_s| *at_s > SETTLED_S) {
            Some(after_s) => Self::Jumped { by_ns: skew_ns, after_s, form },
            None => Self::WrongRate { ppm, form },
        })
    }
}

/// What else the log shows of the check.
struct Seen {
    form: Form,
    /// Late reads were logged shortly before.
    late: bool,
    at_s: Option<f64>,
}

impl Form {
    fn infer(because: &str, interval: &Interval) -> Self {
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
        near && matches!(line.event, LogEvent::WatchdogDelayed { .. })
    })
}
