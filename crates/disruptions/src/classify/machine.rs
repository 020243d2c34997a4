//! What happened to the machine: the table in the heading of `classify`.

use instruments::steps::Interval;

use super::{Context, Dated, from, is_log_of_source, raw_by_tsc, step, step_of};
use crate::clock_name::{BOOTTIME, MONOTONIC, RAW, REALTIME};
use crate::{Disruption, Evidence, Kind, LateCause, Size};

/// A host that steers its clock changes the rate of an emulated timer by less
/// than this part; another host's TSC differs by more, or the page states its
/// frequency.
const OTHER_RATE: f64 = 1000e-6;

/// Rates that differ by less than this part are the same.
const SAME_RATE: f64 = 20e-6;

/// Sources that are a page in which the host states the TSC's rate.
const PAGE_SOURCES: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

/// A host may step its page by this however young the stamp, ns: it reads its
/// clock a few times in a row.
const HOST_STEP_NS: f64 = 1e7;

/// A sample is late by some ms on a busy machine; a pause of at least this
/// shows in it, ns.
const LATE_SHOWS_NS: f64 = 1e8;

/// A pause longer than this shows in the RTC, ns: three times its resolution.
const RTC_SHOWS_NS: f64 = 3e9;

/// What happened to the machine, if anything did.
pub(super) fn classify(evidence: &[Dated], context: Context<'_>) -> Option<Disruption> {
    let figures = Figures::of(evidence, context);
    let any = |test: &dyn Fn(&Evidence) -> bool| evidence.iter().any(|(_, it)| test(it));
    let kind = if any(&is_copy) {
        Kind::SnapshotRestored
    } else if any(&is_sleep) {
        Kind::Suspend
    } else if any(&|it| is_another_host(it, context.source)) {
        Kind::Migrated
    } else {
        figures.by_shift().or_else(|| figures.by_stop()).or_else(|| {
            let disrupted = any(&is_disrupted) || figures.shift.is_some();
            disrupted.then_some(Kind::CounterDisrupted)
        })?
    };
    let mut disruption = from(kind, evidence, is_of_machine)?;
    disruption.size = figures.size(kind);
    disruption.behind = figures.behind();
    Some(disruption)
}

/// The figures in the evidence.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// How far another clock advanced against the TSC, ns: the kernel's source
    /// where that is not the TSC, else the host's page. A timer does not stop
    /// and resume to the nanosecond: where the RTC gained on all of them, a
    /// small shift is none.
    shift: Option<Interval>,
    /// The kernel's source is that clock.
    source_shifted: bool,
    /// How far the TSC advanced beyond the planned time between samples, ns.
    tsc_late_ns: f64,
    /// The page's step, and what of it the host's NTP explains, ns.
    page: Option<(f64, f64)>,
    guest_stopped: bool,
    /// How late the sample was, ns, while nothing ran.
    stopped_ns: Option<Interval>,
    /// What the RTC gained on CLOCK_BOOTTIME, ns.
    rtc: Option<Interval>,
    rtc_was_read: bool,
    slept: Option<Interval>,
}

impl Figures {
    fn of(evidence: &[Dated], context: Context<'_>) -> Self {
        let find = |test: &dyn Fn(&Evidence) -> Option<Interval>| {
            evidence.iter().find_map(|(_, it)| test(it))
        };
        let page = evidence.iter().find_map(|(_, it)| match it {
            Evidence::PageStep { step_ns, explained_ns } => {
                Some((*step_ns as f64, *explained_ns as f64))
            }
            _ => None,
        });
        let source = raw_by_tsc(evidence).or_else(|| find(&diverged));
        let by_page = page.map(|(step_ns, _)| Interval { low: step_ns, high: step_ns });
        let tsc_late = evidence.iter().find_map(|(_, it)| match it {
            Evidence::ClocksDiverged { tsc_s, planned_s, .. } => Some((tsc_s - planned_s) * 1e9),
            _ => None,
        });
        let rtc = find(&rtc_gained);
        let rtc_gained = rtc.is_some_and(|gained| gained.low > HOST_STEP_NS);
        let is_stop_error = |shift: &Interval| rtc_gained && !is_large(*shift);
        Self {
            shift: source.or(by_page).filter(|shift| !is_stop_error(shift)),
            source_shifted: source.is_some(),
            tsc_late_ns: tsc_late.unwrap_or(context.late_ns),
            page,
            guest_stopped: evidence.iter().any(|(_, it)| *it == Evidence::GuestStopped),
            stopped_ns: find(&machine_stopped),
            rtc,
            rtc_was_read: context.rtc_was_read,
            slept: step(evidence, BOOTTIME, MONOTONIC),
        }
    }

    /// What a shift between TSC and another clock means.
    fn by_shift(&self) -> Option<Kind> {
        let shift_ns = self.shift?.middle();
        let size_ns = shift_ns.abs();
        let is_explained = self.page.is_some_and(|(_, explained_ns)| {
            size_ns <= explained_ns.max(HOST_STEP_NS) && !self.guest_stopped
        });
        // One of them stopped while the other ran for that long.
        let limit_ns = if shift_ns < 0.0 { size_ns / 2.0 } else { -size_ns / 2.0 };
        let was_stopped = self.tsc_late_ns >= limit_ns;
        if shift_ns < 0.0 && was_stopped && size_ns >= LATE_SHOWS_NS {
            return Some(self.unless_rtc_contradicts(Kind::Pause));
        }
        if is_explained {
            return Some(Kind::HostStepped);
        }
        if was_stopped {
            Some(self.unless_rtc_contradicts(Kind::Pause))
        } else if shift_ns > 0.0 {
            // The TSC went backward.
            Some(self.jumped())
        } else {
            self.page.map(|_| Kind::HostStepped)
        }
    }

    /// A long pause in which the source stopped shows in the RTC; where it does
    /// not, it was no pause.
    fn unless_rtc_contradicts(&self, kind: Kind) -> Kind {
        let stopped =
            self.source_shifted && self.shift.is_some_and(|it| it.middle() < -RTC_SHOWS_NS);
        if stopped && self.rtc_was_read && self.rtc.is_none() { self.jumped() } else { kind }
    }

    /// A counter that jumps while the host rewrites the page around it is
    /// another machine's.
    fn jumped(&self) -> Kind {
        if self.page.is_some() { Kind::Migrated } else { Kind::CounterDisrupted }
    }

    /// What a machine on which everything stopped shows.
    fn by_stop(&self) -> Option<Kind> {
        match (self.rtc.map(Interval::middle), self.stopped_ns) {
            (Some(gained), _) if gained > 0.0 => Some(Kind::Pause),
            // No time passed by the RTC: the counter jumped.
            (Some(_), Some(_)) => Some(Kind::CounterDisrupted),
            (None, Some(_)) => Some(Kind::Pause),
            _ => self.guest_stopped.then_some(Kind::Pause),
        }
    }

    fn size(&self, kind: Kind) -> Option<Size> {
        let unsigned = |it: Interval| if it.middle() < 0.0 { negated(it) } else { it };
        let lasted = || self.shift.map(unsigned).or(self.rtc).or(self.stopped_ns);
        match kind {
            Kind::Suspend => self.slept,
            Kind::Pause | Kind::SnapshotRestored => lasted(),
            Kind::HostStepped => self.page.map(|(ns, _)| Interval { low: ns, high: ns }),
            _ => self.shift,
        }
        .map(Size::from)
    }

    /// By the RTC, or by whichever of TSC, source and page kept running.
    fn behind(&self) -> Option<Size> {
        let lost = |shift| if self.source_shifted { negated(shift) } else { shift };
        let by_shift = self.shift.map(lost).filter(|lost| lost.middle() > 0.0);
        by_shift.filter(|lost| is_large(*lost)).or(self.rtc).map(Size::from)
    }
}

fn negated(it: Interval) -> Interval {
    Interval { low: -it.high, high: -it.low }
}

/// More than a host steps its page by reading its clock.
fn is_large(shift: Interval) -> bool {
    shift.middle().abs() >= HOST_STEP_NS
}

fn is_copy(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::VmClockGeneration { .. } | Evidence::NewGeneration => true,
        Evidence::Log { line } => line.contains("virtual machine fork"),
        _ => false,
    }
}

fn is_sleep(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Log { line } => {
            line.contains("suspend exit") || line.contains("hibernation exit")
        }
        other => step_of(other, BOOTTIME, MONOTONIC).is_some(),
    }
}

fn is_another_host(evidence: &Evidence, source: Option<&str>) -> bool {
    let is_page = source.is_some_and(|name| PAGE_SOURCES.contains(&name));
    let limit = if is_page { SAME_RATE } else { OTHER_RATE };
    match evidence {
        Evidence::VmClockMarker { .. } | Evidence::PageRate { .. } => true,
        Evidence::Rate { .. } => changed_by(evidence).is_some_and(|part| part >= limit),
        _ => false,
    }
}

fn is_disrupted(evidence: &Evidence) -> bool {
    *evidence == Evidence::PageReset || changed_by(evidence).is_some_and(|part| part >= SAME_RATE)
}

/// The part by which the TSC's rate changed.
fn changed_by(evidence: &Evidence) -> Option<f64> {
    match evidence {
        Evidence::Rate { before_hz, after_hz } => Some((after_hz / before_hz - 1.0).abs()),
        _ => None,
    }
}

/// All but what concerns only the time of day or the source.
fn is_of_machine(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Clocksource { .. }
        | Evidence::WasSet
        | Evidence::Adjtimex(_)
        | Evidence::Stolen { .. } => false,
        Evidence::Log { line } => !is_log_of_source(evidence) && !line.contains("leap second"),
        step => {
            step_of(step, REALTIME, MONOTONIC).is_none() && step_of(step, MONOTONIC, RAW).is_none()
        }
    }
}

/// How far the source advanced against the TSC.
fn diverged(evidence: &Evidence) -> Option<Interval> {
    let Evidence::ClocksDiverged { tsc_s, raw_s, .. } = evidence else { return None };
    let (shift_ns, bound_ns) = ((raw_s - tsc_s) * 1e9, 1e6);
    Some(Interval { low: shift_ns - bound_ns, high: shift_ns + bound_ns })
}

fn rtc_gained(evidence: &Evidence) -> Option<Interval> {
    let Evidence::Rtc { gained_s, bound_s } = evidence else { return None };
    Some(Interval { low: (gained_s - bound_s) * 1e9, high: (gained_s + bound_s) * 1e9 })
}

/// How long nothing ran: the stop began after the last sample, and no later
/// than this one was due.
fn machine_stopped(evidence: &Evidence) -> Option<Interval> {
    match evidence {
        Evidence::Late { gap_s, planned_s, cause: LateCause::MachineStopped } => {
            Some(Interval { low: (gap_s - planned_s) * 1e9, high: gap_s * 1e9 })
        }
        _ => None,
    }
}
