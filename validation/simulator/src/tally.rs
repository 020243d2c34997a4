//! What is noted of a guest as its clock is looked at.

use crate::checks::Promise;
use crate::fault::FaultKind;
use crate::outcome::{BANDS, Counts, Fleet, OFF_NS, SimulationOutcome};
use crate::run::SimulationRun;
use crate::world::SimulatedWorld;

/// The sums of one guest.
pub(crate) struct SimulationTally<'f> {
    fleet: Option<&'f mut Fleet>,
    outcome: SimulationOutcome,
    right_ns: i64,
    limits: [Option<i64>; 2],
    span_ns: i64,
    /// The next time at which all guests' errors are counted.
    band: usize,
    band_ns: i64,
    /// The last look, and the error since.
    last: Option<(i64, i64)>,
    /// Since when a clock that a fault put wrong is wrong.
    wrong_since_ns: Option<i64>,
    /// What happened last.
    happened: Option<FaultKind>,
    /// A fault of which it is not known yet whether it put the clock wrong.
    fault_at_ns: Option<i64>,
}

impl<'f> SimulationTally<'f> {
    pub(crate) fn new(run: SimulationRun<'_>, fleet: &'f mut Fleet) -> Self {
        Self { fleet: Some(fleet), ..Self::silent(run) }
    }

    /// Of a guest that lives what was counted before.
    pub(crate) fn silent(run: SimulationRun<'_>) -> Self {
        let limits = run.scenario.limits;
        let outcome = SimulationOutcome {
            guest: run.guest,
            worst_ns: 0,
            worst_at_ns: 0,
            worst_after: None,
            last_ns: 0,
            off_for_ns: [0; 3],
            slowest_ns: 0,
            counts: Counts::default(),
            violation: None,
        };
        Self {
            fleet: None,
            outcome,
            right_ns: limits.right_ms.ns(),
            limits: limits.checked_ns(run.corrector),
            span_ns: run.span_ns,
            band: 0,
            band_ns: band_ns(0, run.span_ns),
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
        if let [Some(most_ns), _] = self.limits {
            world.checks.at_most(Promise::Error, now_ns, size_ns, most_ns);
        }
        self.recovers(world, size_ns);
        self.count(now_ns, size_ns);
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
        if self.wrong_since_ns.take().is_some()
            && let Some(fleet) = &mut self.fleet
        {
            fleet.never_right += 1;
        }
        self.goes_on(world);
        self.last = Some((world.now_ns, world.error_ns()));
    }

    /// The guest goes on: from here on it may be right again.
    pub(crate) fn goes_on(&mut self, world: &SimulatedWorld) {
        self.fault_at_ns = Some(world.now_ns);
        // While it was away it had no time to be wrong.
        while self.band < BANDS && self.band_ns < world.now_ns {
            self.band += 1;
            self.band_ns = band_ns(self.band, self.span_ns);
        }
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
        if let [_, Some(most_ns)] = self.limits {
            world.checks.at_most(Promise::Recovery, now_ns, took_ns, most_ns);
        }
        if is_right {
            self.wrong_since_ns = None;
            if let Some(fleet) = &mut self.fleet {
                fleet.recoveries.add(took_ns.cast_unsigned());
            }
        }
    }

    /// Counts the error at each of the times that have come since the last look.
    fn count(&mut self, now_ns: i64, size_ns: i64) {
        let Some(fleet) = &mut self.fleet else { return };
        while self.band < BANDS && now_ns >= self.band_ns {
            if let Some(histogram) = fleet.bands.get_mut(self.band) {
                histogram.add(size_ns.cast_unsigned());
            }
            self.band += 1;
            self.band_ns = band_ns(self.band, self.span_ns);
        }
    }

    /// The run ends.
    pub(crate) fn end(mut self, world: &SimulatedWorld) {
        self.outcome.last_ns = world.error_ns();
        self.outcome.counts = world.counts;
        self.outcome.counts.requests = world.network.requests;
        self.outcome.violation = world.checks.first;
        if let Some(fleet) = self.fleet {
            fleet.never_right += u64::from(self.wrong_since_ns.is_some());
            fleet.push(self.outcome);
        }
    }
}

/// The time of a band: the last is a look before the end.
fn band_ns(band: usize, span_ns: i64) -> i64 {
    (i128::from(span_ns) * (band as i128 + 1) / BANDS as i128) as i64
}
