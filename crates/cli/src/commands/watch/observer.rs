//! From look to look: what happened in between.

use std::time::Duration;

use instruments::steps::page::{PageUpdate, compare};
use instruments::steps::{ConstantOffset, Interval, LearntRate, Moved, Rates, Slewed};
use platform::fact::Fact;
use platform::facts::steering::Adjtimex;
use pvclock::kvm_clock::TimeInfo;

use super::event::{Event, Line, Update, page, seconds};
use super::looking::Look;
use super::steering::Steering;
use super::summary::Summary;
use crate::commands::clocks::knowledge;

/// A look that comes later than planned by more than this is told, ns.
const LATE_NS: u64 = 1_000_000_000;

/// Over more than this a slew may have come and gone unseen, ns: chronyd's
/// shortest last a second.
pub(super) const SLEW_SEEN_NS: u64 = 1_000_000_000;

/// What a slew may add to the rate (kernel/time/ntp.c): adjtime runs at
/// 500 ppm; the kernel's loop takes at most a quarter of an offset in a
/// second, which is a third of what it leaves.
const SLEW: f64 = 500e-6;
const OFFSET_PART_PER_S: f64 = 1.0 / 3.0;

/// Microseconds a tick when nobody slews by it (USER_HZ is 100).
const TICK_US: f64 = 10_000.0;

/// The step of a source that is not known, ns: coarse, so that none is made
/// up. The counters in use are finer.
const UNKNOWN_STEP_NS: f64 = 1000.0;

pub(super) const REALTIME: &str = "CLOCK_REALTIME";
pub(super) const BOOTTIME: &str = "CLOCK_BOOTTIME";
pub(super) const MONOTONIC: &str = "CLOCK_MONOTONIC";
pub(super) const RAW: &str = "CLOCK_MONOTONIC_RAW";
pub(super) const TSC: &str = "TSC";

/// Compares each look with those before it.
pub(super) struct Observer {
    interval_ns: u64,
    first_ns: Option<u64>,
    last: Option<Look>,
    realtime: ConstantOffset,
    boottime: ConstantOffset,
    monotonic: Slewed,
    raw: LearntRate,
    source: Option<String>,
    steering: Option<Steering>,
    page: Page,
    summary: Summary,
}

/// What is known of the kvm-clock page.
#[derive(Default)]
struct Page {
    last: Option<TimeInfo>,
    is_there: bool,
    /// When it was last seen to be updated, by CLOCK_MONOTONIC.
    updated_ns: Option<u64>,
}

/// What happened, and when by CLOCK_MONOTONIC, ns.
type Happened = (u64, Event);

impl Observer {
    /// Nothing seen yet; a look is planned each `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
            first_ns: None,
            last: None,
            realtime: ConstantOffset::new(),
            boottime: ConstantOffset::new(),
            monotonic: Slewed::new(),
            raw: LearntRate::new(UNKNOWN_STEP_NS),
            source: None,
            steering: None,
            page: Page::default(),
            summary: Summary::default(),
        }
    }

    /// The TSC's rate by CLOCK_MONOTONIC_RAW as learnt so far, Hz.
    pub(super) fn tsc_hz(&self) -> Option<f64> {
        self.raw.rates().map(|rates| 1e9 / rates.middle())
    }

    /// What was seen so far.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The next look: what happened since the last one.
    pub(super) fn observe(&mut self, look: Look) -> Vec<Line> {
        let first_ns = *self.first_ns.get_or_insert(look.monotonic_ns);
        let is_first = self.last.is_none();
        let passed_ns = self
            .last
            .as_ref()
            .map_or(0, |last| look.monotonic_ns.saturating_sub(last.monotonic_ns));
        self.summary.look(look.monotonic_ns.saturating_sub(first_ns), passed_ns);

        let mut happened = Vec::new();
        if passed_ns > self.interval_ns.saturating_add(LATE_NS) {
            let unwatched_s = seconds(passed_ns);
            happened.push((look.monotonic_ns, Event::Late { unwatched_s }));
        }
        happened.extend(self.page.observe(&look, is_first));
        self.observe_source(&look, &mut happened);
        self.observe_clocks(&look, passed_ns, &mut happened);
        happened.sort_by_key(|(at_ns, _)| *at_ns);
        let lines = self.tell(happened, &look);
        self.last = Some(look);
        lines
    }

    /// The last lines: what only time would have made certain, and all
    /// together.
    pub(super) fn finish(&mut self) -> Vec<Line> {
        let Some(last) = self.last.take() else { return Vec::new() };
        let mut happened = Vec::new();
        push_moved(self.raw.finish(), &mut happened);
        let mut lines = self.tell(happened, &last);
        let since_update = self.page.updated_ns.map(|at| last.monotonic_ns.saturating_sub(at));
        self.summary.close(self.page.last.map(|page| (page.version, since_update.map(seconds))));
        lines.push(line(&last, last.monotonic_ns, Event::Summary(self.summary.clone())));
        lines
    }

    fn tell(&mut self, happened: Vec<Happened>, look: &Look) -> Vec<Line> {
        let lines: Vec<_> =
            happened.into_iter().map(|(at_ns, event)| line(look, at_ns, event)).collect();
        lines.iter().for_each(|line| self.summary.count(line));
        lines
    }

    /// Under another source the raw clock has another rate: it is learnt
    /// anew, from the next look on, since this one may belong to either.
    fn observe_source(&mut self, look: &Look, happened: &mut Vec<Happened>) {
        let now = look.source.known();
        if now.is_none() || now == self.source.as_ref() {
            if let Some(bracket) = look.raw {
                push_moved(self.raw.observe(bracket, look.monotonic_ns), happened);
            }
            return;
        }
        push_moved(self.raw.finish(), happened);
        let step_ns = now.and_then(|name| knowledge::known(name)).map(|known| known.coarsest_ns());
        self.raw = LearntRate::new(step_ns.unwrap_or(UNKNOWN_STEP_NS));
        let before = std::mem::replace(&mut self.source, now.cloned());
        if let (Some(before), Some(after)) = (before, now.cloned()) {
            happened.push((look.monotonic_ns, Event::Source { before, after }));
        }
    }

    fn observe_clocks(&mut self, look: &Look, passed_ns: u64, happened: &mut Vec<Happened>) {
        let mut step = |clock: &str, against: &str, found: Option<Interval>| {
            happened
                .extend(found.map(|step| (look.monotonic_ns, step_event(clock, against, step))));
        };
        let realtime = look.realtime.and_then(|bracket| self.realtime.observe(bracket));
        step(REALTIME, MONOTONIC, realtime);
        let boottime = look.boottime.and_then(|bracket| self.boottime.observe(bracket));
        step(BOOTTIME, MONOTONIC, boottime);

        let Fact::Known(state) = &look.adjtimex else { return };
        let Some(steering) = &mut self.steering else {
            self.steering = Some(Steering::new(state.clone()));
            return;
        };
        if passed_ns > SLEW_SEEN_NS {
            self.monotonic = Slewed::new();
        }
        let rates = slews(steering.last(), state);
        let monotonic = look.monotonic.and_then(|bracket| self.monotonic.observe(bracket, rates));
        step(MONOTONIC, RAW, monotonic);
        let moves = steering.observe(state.clone());
        if !moves.is_empty() {
            happened.push((look.monotonic_ns, Event::Adjtimex { moves }));
        }
    }
}

impl Page {
    fn observe(&mut self, look: &Look, is_first: bool) -> Option<Happened> {
        let was_there = std::mem::replace(&mut self.is_there, look.page.known().is_some());
        let event = match (&look.page, self.last) {
            (Fact::Known(now), Some(last)) if was_there => {
                compare(&last, now).map(|update| self.updated(&update, now, look.monotonic_ns))
            }
            (Fact::Known(now), _) if !is_first => Some(Event::PageThere { page: page(now) }),
            (Fact::Unknown(why), _) if was_there => Some(Event::PageGone { why: why.to_string() }),
            _ => None,
        };
        self.last = look.page.known().copied().or(self.last);
        event.map(|event| (look.monotonic_ns, event))
    }

    fn updated(&mut self, update: &PageUpdate, now: &TimeInfo, now_ns: u64) -> Event {
        let since_ns = self.updated_ns.map(|at_ns| now_ns.saturating_sub(at_ns));
        // A flag that the guest itself took is no update.
        if update.updates != Some(0) {
            self.updated_ns = Some(now_ns);
        }
        Event::PageUpdate(Update::new(update, now, since_ns))
    }
}

/// The rates at which CLOCK_MONOTONIC may run by CLOCK_MONOTONIC_RAW while
/// adjtimex goes from one state to the other.
fn slews(before: &Adjtimex, after: &Adjtimex) -> Rates {
    let rate = |state: &Adjtimex| state.tick_us as f64 / TICK_US + state.frequency_ppm * 1e-6;
    let offset_ns = before.offset_ns.unsigned_abs().max(after.offset_ns.unsigned_abs());
    let doubt = SLEW + seconds(offset_ns) * OFFSET_PART_PER_S;
    let (before, after) = (rate(before), rate(after));
    Rates::new(before.min(after) - doubt, before.max(after) + doubt)
}

fn push_moved(moved: Vec<Moved>, happened: &mut Vec<Happened>) {
    happened.extend(moved.into_iter().map(|moved| match moved {
        Moved::Step { at_ns, step } => (at_ns, step_event(RAW, TSC, step)),
        Moved::Rate { at_ns, before, after } => {
            (at_ns, Event::Rate { before_hz: 1e9 / before, after_hz: 1e9 / after })
        }
    }));
}

fn step_event(clock: &str, against: &str, step: Interval) -> Event {
    Event::Step {
        clock: clock.to_owned(),
        against: against.to_owned(),
        step_ns: step.middle(),
        bound_ns: step.bound(),
    }
}

/// An event at `at_ns` by CLOCK_MONOTONIC, its time of day by the look's.
fn line(look: &Look, at_ns: u64, event: Event) -> Line {
    let ago_ns = look.monotonic_ns.saturating_sub(at_ns);
    Line {
        at_unix_ns: look.unix_ns.and_then(|now_ns| now_ns.checked_sub(ago_ns)),
        at_monotonic_ns: at_ns,
        event,
    }
}

#[cfg(test)]
mod tests;
