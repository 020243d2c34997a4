//! What happened to the machine: the table in the heading of `classify`.

use pvclock::units::Interval;

use super::{Context, Dated, collect_kind, is_log_of_source, late_by, raw_by_tsc, step, step_of};
use crate::{BOOTTIME, MONOTONIC, RAW, REALTIME};
use crate::{Disruption, Evidence, Kind, Kinds, LateCause, Size};

/// A host that steers its clock changes an emulated timer's rate by less than this part;
/// another host's TSC differs by more, or the page states its frequency.
const OTHER_RATE: f64 = 1000e-6;

/// Rates that differ by less than this part are the same.
const SAME_RATE: f64 = 20e-6;

/// Sources that are a page in which the host states the TSC's rate.
const PAGE_SOURCES: [&str; 2] = ["kvm-clock", "hyperv_clocksource_tsc_page"];

/// Sources that count the timer's interrupts. A host too busy to deliver one
/// loses it, so that their rate by the TSC is whatever it just delivers
/// (kernel/time/jiffies.c).
const TICK_SOURCES: [&str; 2] = ["refined-jiffies", "jiffies"];

/// A host may step its page by this however young the stamp, ns: it reads its
/// clock a few times in a row.
const HOST_STEP_NS: f64 = 1e7;

/// A sample is late by some ms on a busy machine; a pause of at least this
/// shows in it, ns.
const LATE_SHOWS_NS: f64 = 1e8;

/// A pause longer than this shows in the RTC, ns: three times its resolution.
const RTC_SHOWS_NS: f64 = 3e9;

/// ns in a second: the resolution of the RTC.
const S_NS: f64 = 1e9;

/// The kernel's time of a suspend may be off by this, ns: two readings of the
/// RTC in whole seconds, and what the firmware took between.
const RTC_ERROR_NS: f64 = 1.5e9;

/// What happened to the machine, if anything did.
pub(super) fn classify(evidence: &[Dated], context: Context<'_>) -> Option<Disruption> {
    let figures = MachineFigures::gather(evidence, context);
    let kinds = notified(evidence, context).or_else(|| figures.by_clocks(evidence, context))?;
    let mut disruption = collect_kind(kinds, evidence, is_of_machine)?;
    disruption.size = figures.size(kinds);
    disruption.behind = figures.behind(kinds);
    Some(disruption)
}

/// What the host or the kernel reported, or the counter's rate shows.
fn notified(evidence: &[Dated], context: Context<'_>) -> Option<Kinds> {
    let any = |test: &dyn Fn(&Evidence) -> bool| evidence.iter().any(|(_, entry)| test(entry));
    if any(&is_copy) {
        return Some(Kind::SnapshotRestored.into());
    }
    let is_marked = any(&|entry| matches!(entry, Evidence::VmClockMarker { .. }));
    if any(&is_end_of_suspend) {
        return Some(Kind::Suspend.into());
    }
    if any(&|entry| step_of(entry, BOOTTIME, MONOTONIC).is_some()) {
        // The kernel logs a suspend that it made itself; what a host makes its
        // kernel do (drivers/xen/manage.c) it does not.
        let by_host = context.log_is_read || context.source == Some("xen");
        return Some(if by_host { Kinds::SUSPENDED_BY_HOST } else { Kind::Suspend.into() });
    }
    if is_marked && context.counts_generations {
        // The host counts restored snapshots, and this is none.
        return Some(Kind::Migrated.into());
    }
    let is_another_host = any(&|entry| is_another_rate(entry, context.source)) && !context.stayed();
    (is_marked || is_another_host).then_some(Kinds::MOVED)
}

/// The figures in the evidence.
#[derive(Debug, Clone, Copy)]
struct MachineFigures {
    /// How far another clock advanced against the TSC, ns: the kernel's source
    /// where that is not the TSC, else the host's page. A timer does not stop
    /// and resume to the nanosecond: where the RTC gained on all of them, a
    /// small shift is none.
    shift: Option<Interval<f64>>,
    /// The kernel's source is that clock.
    source_shifted: bool,
    /// How far the TSC advanced beyond the planned time between samples, ns.
    tsc_late_ns: f64,
    /// When the sample was planned, after the one before, ns.
    planned_ns: f64,
    /// The kernel's source counts ticks, and may have lost some.
    counts_ticks: bool,
    /// The page's step, and what of it the host's NTP explains, ns.
    page: Option<(f64, f64)>,
    guest_stopped: bool,
    /// How late the sample was, ns, while nothing ran.
    stopped_ns: Option<Interval<f64>>,
    /// How late it was, ns, while nothing is known to have run.
    late_ns: Option<Interval<f64>>,
    /// What the RTC gained on CLOCK_BOOTTIME, ns.
    rtc: Option<Interval<f64>>,
    rtc_was_compared: bool,
    slept: Option<Interval<f64>>,
}

impl MachineFigures {
    fn gather(evidence: &[Dated], context: Context<'_>) -> Self {
        let find = |test: &dyn Fn(&Evidence) -> Option<Interval<f64>>| {
            evidence.iter().find_map(|(_, entry)| test(entry))
        };
        let page = evidence.iter().find_map(|(_, entry)| match entry {
            Evidence::PageStep { step_ns, explained_ns } => {
                Some((*step_ns as f64, *explained_ns as f64))
            }
            _ => None,
        });
        let source = raw_by_tsc(evidence).or_else(|| find(&diverged));
        let by_page = page.map(|(step_ns, _)| Interval::plus_minus(step_ns, 0.0));
        let tsc_late = evidence.iter().find_map(|(_, entry)| match entry {
            Evidence::ClocksDiverged { tsc_s, planned_s, .. } => Some((tsc_s - planned_s) * 1e9),
            _ => None,
        });
        let rtc = find(&rtc_gained);
        let rtc_gained = rtc.is_some_and(|gained| gained.low > HOST_STEP_NS);
        let is_stop_error = |shift: &Interval<f64>| rtc_gained && !is_large(*shift);
        Self {
            shift: source.or(by_page).filter(|shift| !is_stop_error(shift)),
            source_shifted: source.is_some(),
            tsc_late_ns: tsc_late.unwrap_or(context.late_ns),
            planned_ns: context.planned_ns,
            counts_ticks: context.source.is_some_and(|name| TICK_SOURCES.contains(&name)),
            page,
            guest_stopped: evidence.iter().any(|(_, entry)| *entry == Evidence::GuestStopped),
            stopped_ns: find(&|entry| late_by(entry, &[LateCause::MachineStopped])),
            late_ns: find(&|entry| late_by(entry, &LateCause::MAYBE_STOPPED)),
            rtc,
            rtc_was_compared: context.rtc_was_compared,
            slept: step(evidence, BOOTTIME, MONOTONIC),
        }
    }

    /// What the clocks show.
    fn by_clocks(&self, evidence: &[Dated], context: Context<'_>) -> Option<Kinds> {
        let kinds = self.by_shift().or_else(|| self.by_stop(evidence)).or_else(|| {
            let is_disrupted = evidence.iter().any(|(_, entry)| is_disrupted(entry));
            (is_disrupted || self.shift.is_some()).then(|| Kind::CounterDisrupted.into())
        })?;
        // The host reports a move, and reported none.
        let left = if context.stayed() { kinds.difference(Kinds::MOVED) } else { Some(kinds) };
        Some(left.unwrap_or(Kind::CounterDisrupted.into()))
    }

    /// What a shift between TSC and another clock means.
    fn by_shift(&self) -> Option<Kinds> {
        let shift_ns = self.shift?.middle();
        let size_ns = shift_ns.abs();
        let is_explained = self.page.is_some_and(|(_, explained_ns)| {
            size_ns <= explained_ns.max(HOST_STEP_NS) && !self.guest_stopped
        });
        // One of them stopped while the other ran for that long.
        let limit_ns = if shift_ns < 0.0 { self.least_late_ns(size_ns) } else { -size_ns / 2.0 };
        let was_stopped = self.tsc_late_ns >= limit_ns;
        let is_pause = shift_ns < 0.0 && was_stopped && size_ns >= LATE_SHOWS_NS;
        if self.counts_ticks {
            // What it seems to have gained is what it had lost before.
            let lost = Kind::CounterDisrupted.into();
            return Some(if is_pause { Kinds::STOPPED_OR_LOST } else { lost });
        }
        if is_pause {
            return Some(self.unless_rtc_contradicts());
        }
        if is_explained {
            return Some(Kind::HostStepped.into());
        }
        match (was_stopped, shift_ns > 0.0) {
            (true, false) => Some(self.unless_rtc_contradicts()),
            // A host that restores or migrates a guest sets its TSC.
            (true, true) => Some(Kinds::STOOD),
            // The TSC went backward.
            (false, true) => Some(self.jumped()),
            (false, false) => self.page.map(|_| Kind::HostStepped.into()),
        }
    }

    /// How late a sample is at least after a pause. One that is due by a clock
    /// that ran on is late by less than the pause: by what was left of it when
    /// the sample was due.
    fn least_late_ns(&self, pause_ns: f64) -> f64 {
        let left_ns = if self.source_shifted { pause_ns } else { pause_ns - self.planned_ns };
        left_ns.min(pause_ns / 2.0).max(LATE_SHOWS_NS / 2.0)
    }

    /// A pause in which the TSC ran, so that KVM did not set it: neither a
    /// restored snapshot nor a migration. QEMU's emulation, which has no page,
    /// never sets it back (`cpu_get_ticks`). A long one in which the source
    /// stopped shows in the RTC; where it does not, it was no pause.
    fn unless_rtc_contradicts(&self) -> Kinds {
        let stopped = self.source_shifted
            && self.shift.is_some_and(|interval| interval.middle() < -RTC_SHOWS_NS);
        let is_contradicted = stopped && self.rtc_was_compared && self.rtc.is_none();
        match (is_contradicted, self.page) {
            (true, _) => self.jumped(),
            (false, None) if self.source_shifted => Kinds::STOOD,
            (false, _) => Kind::Pause.into(),
        }
    }

    /// A counter that jumps while the host rewrites the page around it is
    /// another machine's.
    fn jumped(&self) -> Kinds {
        if self.page.is_some() { Kinds::MOVED } else { Kind::CounterDisrupted.into() }
    }

    /// What a machine on which everything stopped shows.
    fn by_stop(&self, evidence: &[Dated]) -> Option<Kinds> {
        let jumped =
            || evidence.iter().any(|(_, entry)| is_unstable(entry)) && self.late_ns.is_some();
        match (self.rtc.map(Interval::middle), self.stopped_ns) {
            // Nothing else moved: it may have been set as well.
            (Some(gained), _) if gained > 0.0 && is_rtc_alone(evidence) => {
                Some(Kinds::STOOD_OR_RTC_SET)
            }
            (Some(gained), _) if gained > 0.0 => Some(Kinds::STOOD),
            // No time passed by the RTC: the counter jumped.
            (Some(_), Some(_)) => Some(Kind::CounterDisrupted.into()),
            // All clocks ran on, but for the timer that the kernel compares
            // the TSC with.
            _ if jumped() => Some(Kinds::STOOD),
            (None, Some(_)) => Some(Kind::Pause.into()),
            _ => self.guest_stopped.then_some(Kinds::STOOD),
        }
    }

    fn size(&self, kinds: Kinds) -> Option<Size> {
        if kinds.contains(Kind::Suspend) {
            return self.suspended();
        }
        let unsigned = |interval: Interval<f64>| {
            if interval.middle() < 0.0 { -interval } else { interval }
        };
        let shift = self.shift.map(unsigned);
        // The clocks that stopped did not stop for as long as the machine. A sample
        // that is late for an unknown cause may be so on a busy host.
        let longer = self
            .stopped_ns
            .filter(|late| shift.is_some_and(|interval| interval.high < late.low - 5e7));
        let size = match kinds.only() {
            Some(Kind::HostStepped) => self.page.map(|(ns, _)| Interval::plus_minus(ns, 0.0)),
            Some(Kind::Pause | Kind::SnapshotRestored) => {
                longer.or(shift).or(self.rtc).or(self.late_ns)
            }
            None if kinds.contains(Kind::Pause) => {
                self.away(kinds).or(longer).or(shift).or(self.rtc).or(self.late_ns)
            }
            _ => self.shift,
        };
        size.map(Size::from)
    }

    /// How long a machine was away that may have been put back, where its TSC is ahead of its
    /// source: as long as the RTC gained, and no shorter than the TSC ran. An emulated TSC
    /// goes on from where it was when the machine was put back, its timers from where they
    /// were when it was saved (QEMU: `cpu_get_ticks`): it shows how long the machine ran
    /// between the two, and neither saving nor loading. 0.7 s of saving, 4.9 s of running
    /// and 0.8 s of loading are 6.4 s by the RTC, and 4.9 s by the TSC.
    fn away(&self, kinds: Kinds) -> Option<Interval<f64>> {
        let may_be_put_back = kinds.contains(Kind::SnapshotRestored) && self.page.is_none();
        let ran = self
            .shift
            .filter(|interval| self.source_shifted && interval.middle() < 0.0)
            .map(|interval| -interval);
        let (ran, rtc) = ran.zip(self.rtc).filter(|_| may_be_put_back)?;
        // An RTC that gained less shows something else.
        (rtc.high >= ran.high).then_some(Interval { low: rtc.low.max(ran.low), high: rtc.high })
    }

    /// How long a suspend lasted: by a TSC that ran, else by what the kernel
    /// added to its clocks, which it takes from the RTC in whole seconds.
    fn suspended(&self) -> Option<Size> {
        let stood = self.ran_over_suspend().map(|interval| -interval);
        stood.or_else(|| Some(self.slept?.widened(S_NS))).map(Size::from)
    }

    /// The shift of a TSC that ran during a suspend: what it shows agrees with
    /// the RTC. One that was reset, or stopped, does not.
    fn ran_over_suspend(&self) -> Option<Interval<f64>> {
        let (shift, slept) = (self.shift?, self.slept?);
        let difference = -shift.middle() - slept.middle();
        (self.source_shifted && difference.abs() <= RTC_ERROR_NS).then_some(shift)
    }

    /// By the RTC, or by whichever of TSC, source and page kept running.
    fn behind(&self, kinds: Kinds) -> Option<Size> {
        if kinds.contains(Kind::Suspend) {
            // The kernel has added what it slept to the time of day already.
            let (shift, slept) = (self.ran_over_suspend()?, self.slept?);
            return Some(Size::from(-shift - slept));
        }
        if let Some(away) = self.away(kinds) {
            return Some(Size::from(away));
        }
        let lost = |shift: Interval<f64>| if self.source_shifted { -shift } else { shift };
        let by_shift = self.shift.map(lost).filter(|lost| lost.middle() > 0.0);
        by_shift.filter(|lost| is_large(*lost)).or(self.rtc).map(Size::from)
    }
}

/// More than a host steps its page by reading its clock.
fn is_large(shift: Interval<f64>) -> bool {
    shift.middle().abs() >= HOST_STEP_NS
}

fn is_copy(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::VmClockGeneration { .. } | Evidence::NewGeneration => true,
        Evidence::Log { line } => line.contains("virtual machine fork"),
        _ => false,
    }
}

fn is_end_of_suspend(evidence: &Evidence) -> bool {
    let Evidence::Log { line } = evidence else { return false };
    line.contains("suspend exit") || line.contains("hibernation exit")
}

fn is_unstable(evidence: &Evidence) -> bool {
    matches!(evidence, Evidence::Log { line } if line.contains("unstable"))
}

fn is_another_rate(evidence: &Evidence, source: Option<&str>) -> bool {
    if source.is_some_and(|name| TICK_SOURCES.contains(&name)) {
        return false;
    }
    let is_page = source.is_some_and(|name| PAGE_SOURCES.contains(&name));
    let limit = if is_page { SAME_RATE } else { OTHER_RATE };
    match evidence {
        Evidence::PageRate { before_hz, after_hz } => {
            (*after_hz as f64 / *before_hz as f64 - 1.0).abs() >= SAME_RATE
        }
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
        | Evidence::Adjtimex { .. }
        | Evidence::Stolen { .. } => false,
        Evidence::Log { line } => !is_log_of_source(evidence) && !line.contains("leap second"),
        step => {
            step_of(step, REALTIME, MONOTONIC).is_none() && step_of(step, MONOTONIC, RAW).is_none()
        }
    }
}

/// How far the source advanced against the TSC.
fn diverged(evidence: &Evidence) -> Option<Interval<f64>> {
    let Evidence::ClocksDiverged { tsc_s, raw_s, .. } = evidence else { return None };
    Some(Interval::plus_minus((raw_s - tsc_s) * 1e9, 1e6))
}

/// No clock but the RTC moved, no sample was late by its own fault, and nothing was reported.
fn is_rtc_alone(evidence: &[Dated]) -> bool {
    let shows_nothing = |entry: &Evidence| match entry {
        Evidence::Rtc { .. } => true,
        Evidence::Late { .. } => late_by(entry, &LateCause::MAYBE_STOPPED).is_none(),
        _ => !is_of_machine(entry),
    };
    evidence.iter().all(|(_, entry)| shows_nothing(entry))
}

fn rtc_gained(evidence: &Evidence) -> Option<Interval<f64>> {
    let Evidence::Rtc { gained_s, bound_s } = evidence else { return None };
    Some(Interval { low: (gained_s - bound_s) * 1e9, high: (gained_s + bound_s) * 1e9 })
}
