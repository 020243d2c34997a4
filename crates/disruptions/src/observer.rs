//! From look to look: what moved, and what it amounts to.

mod clocks;
mod gathering;
mod lateness;
mod page;
mod rtc;
mod signs;

use std::time::Duration;

use facts::Sample;
use facts::steering::Adjtimex;

use crate::steering::{self, Steering};
use crate::{Disruption, Event, Evidence, Happened, Kind};
use clocks::Clocks;
pub(crate) use clocks::{BOOTTIME, REALTIME};
pub use clocks::{MONOTONIC, RAW, TSC};
use gathering::Gathering;
use lateness::Lateness;
use page::Page;
use rtc::Rtc;
use signs::Signs;

/// Over more than this a slew may have come and gone unseen, ns: chronyd's
/// shortest last a second.
pub const SLEW_SEEN_NS: u64 = 1_000_000_000;

/// While evidence is gathered, a look comes this soon: what follows a
/// disruption follows at once, and whoever waits for the verdict waits less.
const GATHERING_EACH: Duration = Duration::from_millis(50);

/// What a look showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// What moved, in order.
    pub events: Vec<Happened>,
    /// What happened, so far as it can be said by now.
    pub disruptions: Vec<Disruption>,
}

/// Compares each look with those before it.
pub struct Observer {
    interval: Duration,
    /// What has kept whoever looks from it since the last look.
    busy: Duration,
    last: Option<Sample>,
    clocks: Clocks,
    steering: Option<Steering>,
    page: Page,
    lateness: Lateness,
    rtc: Rtc,
    signs: Signs,
    gathering: Gathering,
}

/// What one part of the observer noticed at a look: events for those who
/// watch, evidence for the verdict; each with its time.
#[derive(Debug, Default)]
struct Noticed {
    events: Vec<Happened>,
    evidence: Vec<(u64, Evidence)>,
}

impl Noticed {
    fn event(&mut self, at_monotonic_ns: u64, event: Event) {
        self.events.push(Happened { at_monotonic_ns, event });
    }

    fn evidence(&mut self, at_ns: u64, evidence: Evidence) {
        self.evidence.push((at_ns, evidence));
    }
}

/// What the look before this one left, and how far this one is from it.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// Since the last look, by CLOCK_MONOTONIC, ns.
    ns: u64,
    /// What of it was planned, ns.
    planned_ns: u64,
}

impl Observer {
    /// Nothing seen yet; a look is planned each `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            busy: Duration::ZERO,
            last: None,
            clocks: Clocks::new(),
            steering: None,
            page: Page::default(),
            lateness: Lateness::default(),
            rtc: Rtc::default(),
            signs: Signs::default(),
            gathering: Gathering::default(),
        }
    }

    /// The TSC's rate by CLOCK_MONOTONIC_RAW as learnt so far, Hz.
    pub fn tsc_hz(&self) -> Option<f64> {
        self.clocks.tsc_hz()
    }

    /// The kvm-clock page's version when it was last read, and CLOCK_MONOTONIC
    /// when it was last seen to be updated, ns.
    pub fn page(&self) -> Option<(u32, Option<u64>)> {
        self.page.version_and_update()
    }

    /// Whether something was seen whose meaning is not settled yet: a time to
    /// look soon and at everything, and for whoever keeps the time of day, to
    /// measure it.
    pub fn is_gathering(&self) -> bool {
        self.gathering.is_open()
    }

    /// When to look again.
    pub fn next_sample_in(&self) -> Duration {
        match self.is_gathering() {
            true => self.interval.min(GATHERING_EACH),
            false => self.interval,
        }
    }

    /// Whoever looks had something else to do, such as to wait for a server:
    /// the next look is late by so much more, and for no other reason.
    pub fn was_busy(&mut self, time: Duration) {
        self.busy = self.busy.saturating_add(time);
    }

    /// The next look: what happened since the last one.
    pub fn observe(&mut self, look: Sample) -> Observed {
        let busy = std::mem::take(&mut self.busy);
        let Some(last) = self.last.take() else { return self.begin(look) };
        let planned = self.next_sample_in().saturating_add(busy);
        let planned_ns = u64::try_from(planned.as_nanos()).unwrap_or(u64::MAX);
        let passed = Passed { ns: look.monotonic_ns.saturating_sub(last.monotonic_ns), planned_ns };
        let mut noticed = Noticed::default();

        let was_stopped_by_host = self.page.observe(&look, &mut noticed);
        self.lateness.observe(&look, passed, was_stopped_by_host, &mut noticed);
        self.clocks.observe(&look, &last, passed, &mut noticed);
        let steered = self.observe_steering(&look, passed, &mut noticed);
        self.rtc.observe(&look, self.steering.as_ref().map(Steering::last), &mut noticed);
        self.signs.observe(&look, &mut noticed);

        let mut disruptions: Vec<_> = steered.into_iter().collect();
        let Noticed { mut events, evidence } = noticed;
        self.gathering.add(evidence, look.monotonic_ns);
        let told = self.gathering.settle(&look, passed);
        if told.iter().any(|disruption| disruption.kind.may_be_wrong()) {
            // What the RTC shows only now belongs to what was told.
            self.rtc.forget();
        }
        disruptions.extend(told);
        events.sort_by_key(|happened| happened.at_monotonic_ns);
        self.last = Some(look);
        Observed { events, disruptions }
    }

    /// The first look has nothing to be compared with.
    fn begin(&mut self, look: Sample) -> Observed {
        let mut nothing = Noticed::default();
        self.page.observe(&look, &mut nothing);
        self.lateness.begin(&look);
        self.clocks.begin(&look);
        self.steering = look.adjtimex.known().cloned().map(Steering::new);
        self.rtc.observe(&look, None, &mut nothing);
        self.signs.observe(&look, &mut nothing);
        self.last = Some(look);
        Observed::default()
    }

    /// At the end: what only time would have made certain.
    pub fn finish(&mut self) -> Observed {
        let Some(last) = self.last.take() else { return Observed::default() };
        let mut noticed = Noticed::default();
        self.clocks.finish(&mut noticed);
        self.gathering.add(noticed.evidence, last.monotonic_ns);
        Observed { events: noticed.events, disruptions: self.gathering.close(&last) }
    }

    /// Moves of adjtimex, which say themselves what they are: told at once.
    fn observe_steering(
        &mut self,
        look: &Sample,
        passed: Passed,
        noticed: &mut Noticed,
    ) -> Option<Disruption> {
        let state: &Adjtimex = look.adjtimex.known()?;
        let Some(steering) = &mut self.steering else {
            self.steering = Some(Steering::new(state.clone()));
            return None;
        };
        if passed.ns > SLEW_SEEN_NS {
            self.clocks.forget_slews();
        }
        self.clocks.observe_slews(look, steering.last(), state, noticed);
        let moves = steering.observe(state.clone());
        if moves.is_empty() {
            return None;
        }
        let (steers, tells): (Vec<_>, Vec<_>) =
            moves.iter().cloned().partition(steering::Move::steers);
        for told in tells {
            noticed.evidence(look.monotonic_ns, Evidence::Adjtimex(told));
        }
        noticed.event(look.monotonic_ns, Event::Adjtimex { moves });
        (!steers.is_empty()).then(|| Disruption {
            kind: Kind::Steered,
            at_monotonic_ns: look.monotonic_ns,
            size: None,
            behind: None,
            evidence: steers.into_iter().map(Evidence::Adjtimex).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
