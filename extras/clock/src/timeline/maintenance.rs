//! One round of maintenance as pure code: readings of the system in, what to
//! publish out.

use crate::timeline::bound::{BoundSource, ErrorFrom, SegmentSource, TimexBound, VmClockBound};
use crate::timeline::realtime::{RealtimeOffset, RealtimeSample};
use crate::timeline::sample::TimelineSample;
use crate::timeline::steering::{ClockSteering, Distrust, SteeringLimits};
use crate::timeline::view::TimelineView;

/// Readings of the system for one round.
#[derive(Debug, Clone, Copy)]
pub struct MaintenanceReading {
    /// The system's time, ns, from before everything else was read.
    pub now_ns: u64,
    /// The TSC, from after everything else was read.
    pub now_tsc: u64,
    /// The narrowest of some samples, unless all were too wide.
    pub sample: Option<TimelineSample>,
    /// The time of day.
    pub realtime: RealtimeSample,
    /// What adjtimex reported, when it was called.
    pub timex: Option<TimexBound>,
    /// What the VMClock page contained.
    pub vmclock: Option<VmClockBound>,
    /// What a ClockBound segment bounds, if it does.
    pub segment: Option<SegmentSource>,
    /// Why the TSC must not be used, by CPU and kernel.
    pub distrust: Option<Distrust>,
}

/// The state of the maintaining thread.
#[derive(Debug)]
pub struct Maintenance {
    /// Segments.
    pub steering: ClockSteering,
    /// The time of day.
    pub realtime: RealtimeOffset,
    bound: BoundSource,
    identity: Option<(u64, u64)>,
    unsynchronised_ns: Option<u64>,
    limits: SteeringLimits,
    /// Where the error of the last publication comes from.
    pub error_from: Option<ErrorFrom>,
    /// What was published last.
    pub view: TimelineView,
}

impl Maintenance {
    /// Nothing known. `unsynchronised_ns` is the error where nothing else
    /// bounds it; no time below `floor_ns` is published.
    pub const fn new(
        limits: SteeringLimits,
        unsynchronised_ns: Option<u64>,
        floor_ns: u64,
    ) -> Self {
        Self {
            steering: ClockSteering::new(limits, floor_ns),
            realtime: RealtimeOffset::new(),
            bound: BoundSource::new(),
            identity: None,
            unsynchronised_ns,
            limits,
            error_from: None,
            view: TimelineView::EMPTY,
        }
    }

    /// One round; returns what to publish.
    pub fn step(&mut self, reading: &MaintenanceReading) -> TimelineView {
        let disruptions = self.steering.disruptions;
        self.check_vmclock(reading.vmclock);
        match (reading.distrust, &reading.sample) {
            (Some(why), _) => self.steering.suspend(why, reading.now_ns, 0),
            (None, Some(sample)) => _ = self.steering.step(sample),
            (None, None) => self.steering.coast(reading.now_tsc),
        }
        if self.steering.disruptions != disruptions {
            self.bound.disrupt(reading.now_ns);
        }
        if let Some(timex) = reading.timex {
            self.bound.update_timex(timex, reading.now_ns);
        }
        let steps = self.realtime.steps;
        self.realtime.update(&reading.realtime);
        if self.realtime.steps != steps {
            self.bound.step(reading.realtime.after_ns);
        }
        self.view = self.next_view(reading);
        self.view
    }

    /// Detects another marker or generation than before.
    fn check_vmclock(&mut self, vmclock: Option<VmClockBound>) {
        let Some(VmClockBound { identity, .. }) = vmclock else { return };
        if self.identity.replace(identity).is_some_and(|before| before != identity) {
            self.steering.disruption_announced();
        }
    }

    fn next_view(&mut self, reading: &MaintenanceReading) -> TimelineView {
        let (realtime_offset_ns, offset_error_ns) = self.realtime.best_ns();
        let (now_ns, vmclock) = (reading.now_ns, reading.vmclock);
        let known = self.bound.error_ns(now_ns, vmclock, reading.segment, self.unsynchronised_ns);
        self.error_from = known.map(|(_, error_from)| error_from);
        let steering = &self.steering;
        let ours_ns = steering.error_ns(reading.now_ns).saturating_add(offset_error_ns);
        TimelineView {
            newest: steering.newest,
            due_cycles: steering.newest.cycles / 4 * 3,
            older: steering.older,
            floor_ns: steering.floor_ns(),
            retry_ns: reading.now_ns.saturating_add(self.limits.segment_ns / 2),
            realtime_offset_ns,
            error_ns: known.map(|(ns, _)| ns.saturating_add(ours_ns)),
            error_at_ns: reading.now_ns,
        }
    }
}
