//! From sample to sample: what changed, and what it amounts to.

mod clocks;
mod gathering;
mod lateness;
mod page;
mod rtc;

use std::time::Duration;

use facts::Sample;
use facts::hardware::VmClock;
use facts::kernel::{LogEvent, LogLine};
use facts::steering::Adjtimex;

use crate::observer::clocks::{ClockOffsets, ObserverReference};
use crate::observer::gathering::Gathering;
use crate::observer::lateness::Lateness;
use crate::observer::page::ObservedPage;
use crate::observer::rtc::ObservedRtc;
use crate::steering::{self, ObservedSteering};
use crate::{Disruption, Event, Evidence, Happened, Kind};

/// In a longer interval between samples a slew may begin and end undetected,
/// ns: chronyd's shortest last a second.
pub const SLEW_SEEN_NS: u64 = 1_000_000_000;

/// The sampling interval while evidence is gathered: the consequences of a
/// disruption follow at once, and its report comes sooner.
const GATHERING_INTERVAL: Duration = Duration::from_millis(50);

/// What a sample showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// What changed, in order.
    pub events: Vec<Happened>,
    /// What happened, as far as it is known by now.
    pub disruptions: Vec<Disruption>,
}

/// Compares each sample with the ones before it.
pub struct Observer {
    interval: Duration,
    /// What the caller spent on other work since the last sample.
    busy: Duration,
    last: Option<Sample>,
    clocks: ClockOffsets,
    steering: Option<ObservedSteering>,
    page: ObservedPage,
    lateness: Lateness,
    rtc: ObservedRtc,
    notifications: Notifications,
    gathering: Gathering,
}

impl Observer {
    /// An observer of samples that are planned each `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            busy: Duration::ZERO,
            last: None,
            clocks: ClockOffsets::new(),
            steering: None,
            page: ObservedPage::default(),
            lateness: Lateness::default(),
            rtc: ObservedRtc::default(),
            notifications: Notifications::default(),
            gathering: Gathering::default(),
        }
    }

    /// The TSC's rate by CLOCK_MONOTONIC_RAW as learnt so far, Hz.
    pub fn tsc_hz(&self) -> Option<f64> {
        self.clocks.tsc_hz()
    }

    /// The kvm-clock page's version when it was last read, and CLOCK_MONOTONIC
    /// at the sample that last showed an update, ns.
    pub fn page(&self) -> Option<(u32, Option<u64>)> {
        self.page.version_and_update()
    }

    /// Whether there is evidence that is not classified yet: a time to sample
    /// soon, with all probes, and to measure the time of day if it is kept.
    pub fn is_gathering(&self) -> bool {
        self.gathering.is_open()
    }

    /// CLOCK_MONOTONIC of the sample that showed the last of such evidence that only the host can
    /// have caused, ns: the machine may have been away until then.
    pub fn away_until_ns(&self) -> Option<u64> {
        self.gathering.away_until_ns()
    }

    /// When to take the next sample.
    pub fn next_sample_in(&self) -> Duration {
        if self.is_gathering() { self.interval.min(GATHERING_INTERVAL) } else { self.interval }
    }

    /// The caller did other work, such as waiting for a server: the next sample
    /// may be later by this `time`.
    pub fn was_busy(&mut self, time: Duration) {
        self.busy = self.busy.saturating_add(time);
    }

    /// Takes the next sample and returns what happened since the last one.
    pub fn observe(&mut self, sample: Sample) -> Observed {
        let busy = std::mem::take(&mut self.busy);
        let Some(last) = self.last.take() else { return self.begin(sample) };
        let planned = self.next_sample_in().saturating_add(busy);
        let planned_ns = u64::try_from(planned.as_nanos()).unwrap_or(u64::MAX);
        let elapsed =
            Elapsed { ns: sample.monotonic_ns.saturating_sub(last.monotonic_ns), planned_ns };
        let mut noticed = Noticed::default();

        let was_stopped_by_host = self.page.observe(&sample, &mut noticed);
        self.lateness.observe(&sample, elapsed, was_stopped_by_host, &mut noticed);
        let reference = self.reference(&sample);
        self.clocks.observe(&sample, (&last, reference), elapsed, &mut noticed);
        let steering = self.observe_steering(&sample, elapsed, &mut noticed);
        let steered = self.steering.as_ref().map(ObservedSteering::last);
        let rtc_was_compared = self.rtc.observe(&sample, steered, &mut noticed);
        self.notifications.observe(&sample, &mut noticed);

        let mut disruptions: Vec<_> = steering.into_iter().collect();
        let Noticed { mut events, evidence } = noticed;
        self.gathering.add(evidence, sample.monotonic_ns);
        let settled = self.gathering.settle(&sample, elapsed, rtc_was_compared);
        if settled.iter().any(|disruption| disruption.kinds.may_be_wrong()) {
            // A later step of the RTC would belong to the same disruption.
            self.rtc.doubt_before(&sample);
        }
        disruptions.extend(settled);
        events.sort_by_key(|happened| happened.at_monotonic_ns);
        self.last = Some(sample);
        Observed { events, disruptions }
    }

    /// The first sample has none to be compared with.
    fn begin(&mut self, sample: Sample) -> Observed {
        let mut nothing = Noticed::default();
        self.page.observe(&sample, &mut nothing);
        self.lateness.begin(&sample);
        let reference = self.reference(&sample);
        self.clocks.begin(&sample, reference);
        self.steering = sample.adjtimex.value().cloned().map(ObservedSteering::new);
        self.rtc.observe(&sample, None, &mut nothing);
        self.notifications.observe(&sample, &mut nothing);
        self.last = Some(sample);
        Observed::default()
    }

    fn reference(&self, sample: &Sample) -> ObserverReference {
        let (scale, no_step_ns) = (self.page.scale(), self.page.no_step_ns());
        ObserverReference { cpu: sample.cpu, scale, no_step_ns }
    }

    /// Ends the observation: what is left is classified without more samples.
    pub fn finish(&mut self) -> Observed {
        let Some(last) = self.last.take() else { return Observed::default() };
        let mut noticed = Noticed::default();
        self.clocks.finish(&mut noticed);
        self.gathering.add(noticed.evidence, last.monotonic_ns);
        Observed { events: noticed.events, disruptions: self.gathering.close(&last) }
    }

    /// Changes of adjtimex, which need no other evidence: reported at once.
    fn observe_steering(
        &mut self,
        sample: &Sample,
        elapsed: Elapsed,
        noticed: &mut Noticed,
    ) -> Option<Disruption> {
        let state: &Adjtimex = sample.adjtimex.value()?;
        let Some(steering) = &mut self.steering else {
            self.steering = Some(ObservedSteering::new(state.clone()));
            return None;
        };
        if elapsed.ns > SLEW_SEEN_NS {
            self.clocks.forget_slews();
        }
        self.clocks.observe_slews(sample, steering.last(), state, noticed);
        let moves = steering.observe(state.clone());
        if moves.is_empty() {
            return None;
        }
        let (steers, announces): (Vec<_>, Vec<_>) =
            moves.into_iter().partition(steering::Move::steers);
        for change in announces {
            noticed.change(sample.monotonic_ns, Evidence::Adjtimex { change });
        }
        let steers: Vec<_> =
            steers.into_iter().map(|change| Evidence::Adjtimex { change }).collect();
        for change in &steers {
            noticed.event(sample.monotonic_ns, Event::Change(change.clone()));
        }
        (!steers.is_empty()).then(|| Disruption {
            kinds: Kind::Steered.into(),
            at_monotonic_ns: sample.monotonic_ns,
            size: None,
            behind: None,
            evidence: steers,
        })
    }
}

/// What one part of the observer noticed in a sample: events, and evidence
/// for the classification; each with its time.
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

    /// What is both.
    fn change(&mut self, at_ns: u64, evidence: Evidence) {
        self.event(at_ns, Event::Change(evidence.clone()));
        self.evidence(at_ns, evidence);
    }
}

/// The time between the last sample and this one.
#[derive(Debug, Clone, Copy)]
struct Elapsed {
    /// Since the last sample, by CLOCK_MONOTONIC, ns.
    ns: u64,
    /// What of it was planned, ns.
    planned_ns: u64,
}

// Direct reports of a disruption: VMClock, the kernel's log and its
// messages.

/// What was reported last.
#[derive(Debug, Default)]
struct Notifications {
    vmclock: Option<VmClock>,
}

impl Notifications {
    fn observe(&mut self, sample: &Sample, noticed: &mut Noticed) {
        let at_ns = sample.monotonic_ns;
        if let Some(now) = sample.vmclock.value()
            && let Some(before) = self.vmclock.replace(now.clone())
        {
            compare(&before, now).for_each(|evidence| noticed.evidence(at_ns, evidence));
        }
        let lines = sample.log.value().map_or(&[][..], Vec::as_slice);
        for line in lines.iter().filter(|line| is_relevant(line)) {
            noticed.evidence(at_ns, Evidence::Log { line: line.text.clone() });
        }
        if sample.was_set.is_known_and(|set| *set) {
            noticed.evidence(at_ns, Evidence::WasSet);
        }
        if sample.new_generation.is_known_and(|new| *new) {
            noticed.evidence(at_ns, Evidence::NewGeneration);
        }
    }
}

fn compare(before: &VmClock, now: &VmClock) -> impl Iterator<Item = Evidence> {
    let marker = (before.disruption_marker != now.disruption_marker).then_some({
        Evidence::VmClockMarker { before: before.disruption_marker, after: now.disruption_marker }
    });
    let generation = now
        .vm_generation
        .filter(|after| before.vm_generation != Some(*after))
        .map(|after| Evidence::VmClockGeneration { before: before.vm_generation, after });
    [marker, generation].into_iter().flatten()
}

fn is_relevant(line: &LogLine) -> bool {
    matches!(
        line.event,
        LogEvent::Restored
            | LogEvent::Resumed
            | LogEvent::LeapSecond
            | LogEvent::Switched { .. }
            | LogEvent::MarkedUnstable { .. }
    )
}

#[cfg(test)]
mod tests;
