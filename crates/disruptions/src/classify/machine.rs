//! What befell the machine: the table in the heading of `classify`.

use instruments::steps::Interval;

use super::{Dated, Moment, from, is_log_of_source, raw_by_tsc, step, step_of};
use crate::observer::{BOOTTIME, MONOTONIC, RAW, REALTIME};
use crate::{Disruption, Evidence, Kind, LateCause, Size};

/// A host that steers changes the rate of the clock behind an emulated timer
/// by less than this part; another host's TSC differs by more, or says so in
/// the page.
const OTHER_RATE: f64 = 1000e-6;

/// What differs by less than this part is the same rate.
const SAME_RATE: f64 = 20e-6;

/// Sources that tell time by a page, in which a host puts the TSC's rate.
const BY_PAGE: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

/// A page's step up to this is a host's own affair however young the stamp,
/// ns: its clock is read a few times in a row.
const OWN_AFFAIR_NS: f64 = 1e7;

/// A look is late by some ms on a busy machine; a machine that was stopped
/// for at least this long shows in it, ns.
const SHOWS_NS: f64 = 1e8;

/// A pause longer than this shows in the RTC, ns: its resolution, thrice.
const RTC_SHOWS_NS: f64 = 3e9;

/// What happened to the machine, if anything did.
pub(super) fn judge(evidence: &[Dated], moment: Moment<'_>) -> Option<Disruption> {
    let seen = Seen::of(evidence, moment);
    let any = |test: &dyn Fn(&Evidence) -> bool| evidence.iter().any(|(_, it)| test(it));
    let kind = if any(&is_copy) {
        Kind::SnapshotRestored
    } else if any(&is_sleep) {
        Kind::Suspend
    } else if any(&|it| is_another_host(it, moment.source)) {
        Kind::Migrated
    } else {
        seen.by_shift().or_else(|| seen.by_standing()).or_else(|| {
            let disrupted = any(&is_disrupted) || seen.shift.is_some();
            disrupted.then_some(Kind::CounterDisrupted)
        })?
    };
    let mut told = from(kind, evidence, is_of_machine)?;
    told.size = seen.size(kind);
    told.behind = seen.behind();
    Some(told)
}

/// The figures in the evidence.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// How far another clock went against the TSC, ns: the kernel's source
    /// where that is not the TSC, else the host's page. A timer does not stop
    /// and go on to the nanosecond: where the RTC went on without them all, a
    /// small one is none.
    shift: Option<Interval>,
    /// The kernel's source is that clock.
    source_shifted: bool,
    /// How far the TSC went beyond what was planned from look to look, ns.
    tsc_late_ns: f64,
    /// The page's step, and what of it the host's NTP explains, ns.
    page: Option<(f64, f64)>,
    guest_stopped: bool,
    /// The look was so late, ns, and nothing ran meanwhile.
    stood_ns: Option<Interval>,
    /// What the RTC gained on CLOCK_BOOTTIME, ns.
    rtc: Option<Interval>,
    rtc_was_read: bool,
    slept: Option<Interval>,
}

impl Seen {
    fn of(evidence: &[Dated], moment: Moment<'_>) -> Self {
        let find = |test: &dyn Fn(&Evidence) -> Option<Interval>| {
            evidence.iter().find_map(|(_, it)| test(it))
        };
        let page = evidence.iter().find_map(|(_, it)| match it {
            Evidence::PageStep { step_ns, explained_ns } => {
                Some((*step_ns as f64, *explained_ns as f64))
            }
            _ => None,
        });
        let source = raw_by_tsc(evidence).or_else(|| find(&went_apart));
        let by_page = page.map(|(step_ns, _)| Interval { low: step_ns, high: step_ns });
        let tsc_late = evidence.iter().find_map(|(_, it)| match it {
            Evidence::CounterWent { tsc_s, planned_s, .. } => Some((tsc_s - planned_s) * 1e9),
            _ => None,
        });
        let rtc = find(&rtc_gained);
        let rtc_went_on = rtc.is_some_and(|gained| gained.low > OWN_AFFAIR_NS);
        let is_how_it_stopped = |shift: &Interval| rtc_went_on && !is_large(*shift);
        Self {
            shift: source.or(by_page).filter(|shift| !is_how_it_stopped(shift)),
            source_shifted: source.is_some(),
            tsc_late_ns: tsc_late.unwrap_or(moment.late_ns),
            page,
            guest_stopped: evidence.iter().any(|(_, it)| *it == Evidence::GuestStopped),
            stood_ns: find(&stood_still),
            rtc,
            rtc_was_read: moment.rtc_was_read,
            slept: step(evidence, BOOTTIME, MONOTONIC),
        }
    }

    /// What a clock that went otherwise than the TSC tells.
    fn by_shift(&self) -> Option<Kind> {
        let shift_ns = self.shift?.middle();
        let size_ns = shift_ns.abs();
        let is_explained = self.page.is_some_and(|(_, explained_ns)| {
            size_ns <= explained_ns.max(OWN_AFFAIR_NS) && !self.guest_stopped
        });
        // The other clock stood, or the TSC did, while the one of them went
        // on for that long.
        let was_stopped = match shift_ns < 0.0 {
            true => self.tsc_late_ns >= size_ns / 2.0,
            false => self.tsc_late_ns >= -size_ns / 2.0,
        };
        if shift_ns < 0.0 && was_stopped && size_ns >= SHOWS_NS {
            return Some(self.unless_rtc_contradicts(Kind::Pause));
        }
        if is_explained {
            return Some(Kind::HostStepped);
        }
        match was_stopped {
            true => Some(self.unless_rtc_contradicts(Kind::Pause)),
            // The TSC went back, or the host moved its page alone.
            false if shift_ns > 0.0 => Some(self.jumped()),
            false => self.page.map(|_| Kind::HostStepped),
        }
    }

    /// A source that stood through a long pause shows in the RTC; where it
    /// does not, it was no pause.
    fn unless_rtc_contradicts(&self, kind: Kind) -> Kind {
        let stood = self.source_shifted && self.shift.is_some_and(|it| it.middle() < -RTC_SHOWS_NS);
        match stood && self.rtc_was_read && self.rtc.is_none() {
            true => self.jumped(),
            false => kind,
        }
    }

    /// A counter that jumps while the host rewrites the page around it is
    /// another machine's.
    fn jumped(&self) -> Kind {
        match self.page {
            Some(_) => Kind::Migrated,
            None => Kind::CounterDisrupted,
        }
    }

    /// What tells that everything stood.
    fn by_standing(&self) -> Option<Kind> {
        match (self.rtc.map(Interval::middle), self.stood_ns) {
            (Some(gained), _) if gained > 0.0 => Some(Kind::Pause),
            // By the RTC no time passed: the counter jumped.
            (Some(_), Some(_)) => Some(Kind::CounterDisrupted),
            (None, Some(_)) => Some(Kind::Pause),
            _ => self.guest_stopped.then_some(Kind::Pause),
        }
    }

    fn size(&self, kind: Kind) -> Option<Size> {
        let unsigned = |it: Interval| match it.middle() < 0.0 {
            true => Interval { low: -it.high, high: -it.low },
            false => it,
        };
        let lasted = || self.shift.map(unsigned).or(self.rtc).or(self.stood_ns);
        match kind {
            Kind::Suspend => self.slept,
            Kind::Pause | Kind::SnapshotRestored => lasted(),
            Kind::HostStepped => self.page.map(|(ns, _)| Interval { low: ns, high: ns }),
            _ => self.shift,
        }
        .map(Size::from)
    }

    /// The RTC went on, or else whichever of TSC and source or page did.
    fn behind(&self) -> Option<Size> {
        let by_shift = self.shift.and_then(|shift| match self.source_shifted {
            true if shift.middle() < 0.0 => Some(Interval { low: -shift.high, high: -shift.low }),
            false if shift.middle() > 0.0 => Some(shift),
            _ => None,
        });
        by_shift.filter(|shift| is_large(*shift)).or(self.rtc).map(Size::from)
    }
}

/// More than a host moves a clock by its own affairs.
fn is_large(shift: Interval) -> bool {
    shift.middle().abs() >= OWN_AFFAIR_NS
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
    let limit = match source.is_some_and(|name| BY_PAGE.contains(&name)) {
        true => SAME_RATE,
        false => OTHER_RATE,
    };
    match evidence {
        Evidence::VmClockMarker { .. } | Evidence::PageRate { .. } => true,
        Evidence::Rate { .. } => changed_by(evidence).is_some_and(|part| part >= limit),
        _ => false,
    }
}

fn is_disrupted(evidence: &Evidence) -> bool {
    *evidence == Evidence::PageAnew || changed_by(evidence).is_some_and(|part| part >= SAME_RATE)
}

/// The part by which the TSC's rate changed.
fn changed_by(evidence: &Evidence) -> Option<f64> {
    match evidence {
        Evidence::Rate { before_hz, after_hz } => Some((after_hz / before_hz - 1.0).abs()),
        _ => None,
    }
}

/// All but what concerns the time of day and the source alone.
fn is_of_machine(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Source { .. }
        | Evidence::WasSet
        | Evidence::Adjtimex(_)
        | Evidence::Stolen { .. } => false,
        Evidence::Log { line } => !is_log_of_source(evidence) && !line.contains("leap second"),
        step => {
            step_of(step, REALTIME, MONOTONIC).is_none() && step_of(step, MONOTONIC, RAW).is_none()
        }
    }
}

/// How far the source went against the TSC, seen at once.
fn went_apart(evidence: &Evidence) -> Option<Interval> {
    let Evidence::CounterWent { tsc_s, raw_s, .. } = evidence else { return None };
    let (apart_ns, doubt_ns) = ((raw_s - tsc_s) * 1e9, 1e6);
    Some(Interval { low: apart_ns - doubt_ns, high: apart_ns + doubt_ns })
}

fn rtc_gained(evidence: &Evidence) -> Option<Interval> {
    let Evidence::Rtc { gained_s, bound_s } = evidence else { return None };
    Some(Interval { low: (gained_s - bound_s) * 1e9, high: (gained_s + bound_s) * 1e9 })
}

/// How long nothing ran: it began after the last look, and at the latest
/// when this one was due.
fn stood_still(evidence: &Evidence) -> Option<Interval> {
    match evidence {
        Evidence::Unwatched { unwatched_s, planned_s, cause: LateCause::StoodStill } => {
            Some(Interval { low: (unwatched_s - planned_s) * 1e9, high: unwatched_s * 1e9 })
        }
        _ => None,
    }
}
