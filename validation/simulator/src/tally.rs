//! What is noted of a guest as its clock is looked at.

use crate::checks::Promise;
use crate::fault::FaultKind;
use crate::fleet::Simulation;
use crate::outcome::{OFF_NS, SimulationOutcome};
use crate::scenario::{ScenarioCorrector, ns};
use crate::world::SimulatedWorld;

/// The sums of one guest.
pub(crate) struct SimulationTally {
    outcome: SimulationOutcome,
    right_ns: i64,
    /// Of the error, and of the time to be right.
    limits_ns: [Option<i64>; 2],
    /// The last look, and the error since.
    last: Option<(i64, i64)>,
    /// Since when a clock that a fault put wrong is wrong.
    wrong_since_ns: Option<i64>,
    /// What happened last.
    happened: Option<FaultKind>,
    /// A fault of which it is not known yet whether it put the clock wrong.
    fault_at_ns: Option<i64>,
}

impl SimulationTally {
    pub(crate) fn new(run: &Simulation<'_>, guest: u64) -> Self {
        let limits = run.scenario.limits;
        let is_kept = run.corrector == ScenarioCorrector::Keeper;
        let limit = |limit: Option<f64>| limit.filter(|_| is_kept).map(ns);
        Self {
            outcome: SimulationOutcome { guest, ..SimulationOutcome::default() },
            right_ns: ns(limits.right_ms / 1e3),
            limits_ns: [limits.error_s, limits.recovery_s].map(limit),
            last: None,
            wrong_since_ns: None,
            happened: None,
            fault_at_ns: None,
        }
    }

    /// The clock is looked at, before anything is done about it.
    pub(crate) fn look(&mut self, world: &mut SimulatedWorld) {
        let (now_ns, error_ns) = (world.now_ns, world.error_ns());
        let size_ns = error_ns.saturating_abs();
        if let Some((then_ns, then_error_ns)) = self.last {
            // Between two looks it was off where it is at both ends.
            let least_ns = size_ns.min(then_error_ns.saturating_abs());
            for (off_ns, sum_ns) in OFF_NS.into_iter().zip(&mut self.outcome.off_for_ns) {
                if least_ns > off_ns {
                    *sum_ns += now_ns - then_ns;
                }
            }
        }
        if size_ns > self.outcome.worst_ns.saturating_abs() {
            (self.outcome.worst_ns, self.outcome.worst_at_ns) = (error_ns, now_ns);
            self.outcome.worst_after = self.happened;
        }
        if let [Some(most_ns), _] = self.limits_ns {
            world.checks.at_most(Promise::Error, now_ns, size_ns, most_ns);
        }
        self.recovers(world, size_ns);
        self.last = Some((now_ns, error_ns));
    }

    /// What was done about it.
    pub(crate) fn corrected(&mut self, world: &SimulatedWorld) {
        let error_ns = world.error_ns();
        if self.last.is_some_and(|(_, before_ns)| before_ns != error_ns) {
            self.last = Some((world.now_ns, error_ns));
        }
    }

    /// Something happens now.
    pub(crate) fn happened(&mut self, world: &SimulatedWorld, what: Option<FaultKind>) {
        self.happened = what;
        self.outcome.never_right += u64::from(self.wrong_since_ns.take().is_some());
        self.goes_on(world);
        self.last = Some((world.now_ns, world.error_ns()));
    }

    /// The guest goes on: from here on it may be right again.
    pub(crate) fn goes_on(&mut self, world: &SimulatedWorld) {
        self.fault_at_ns = Some(world.now_ns);
    }

    /// Whether it is right again.
    fn recovers(&mut self, world: &mut SimulatedWorld, size_ns: i64) {
        let now_ns = world.now_ns;
        let is_right = size_ns <= self.right_ns;
        if !is_right && let Some(at_ns) = self.fault_at_ns.take() {
            self.wrong_since_ns = Some(at_ns);
        }
        let Some(since_ns) = self.wrong_since_ns else { return };
        let took_ns = now_ns - since_ns;
        self.outcome.slowest_ns = self.outcome.slowest_ns.max(took_ns);
        if let [_, Some(most_ns)] = self.limits_ns {
            world.checks.at_most(Promise::Recovery, now_ns, took_ns, most_ns);
        }
        if is_right {
            self.wrong_since_ns = None;
            self.outcome.recovered += 1;
        }
    }

    /// The run ends.
    pub(crate) fn end(mut self, world: &SimulatedWorld) -> SimulationOutcome {
        self.outcome.never_right += u64::from(self.wrong_since_ns.is_some());
        self.outcome.last_ns = world.error_ns();
        self.outcome.counts = world.counts;
        self.outcome.counts.requests = world.network.requests;
        self.outcome.violation = world.checks.first;
        self.outcome
    }
}
