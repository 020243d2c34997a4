//! A run of many guests, of which each is alone: whoever calls may share them
//! out among threads as it likes, and gets the same bytes.

use core::ops::Range;

use crate::fault::Planned;
use crate::guest::SimulatedGuest;
use crate::outcome::Fleet;
use crate::plan;
use crate::run::SimulationRun;
use crate::scenario::{Scenario, ScenarioCorrector};
use crate::tally::SimulationTally;

/// A fleet that is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Simulation<'s> {
    scenario: &'s Scenario,
    corrector: ScenarioCorrector,
    seed: u64,
    span_ns: i64,
}

impl<'s> Simulation<'s> {
    /// A run of `span_ns`, as [`Scenario::check`] has it.
    #[must_use]
    pub const fn new(
        scenario: &'s Scenario,
        corrector: ScenarioCorrector,
        seed: u64,
        span_ns: i64,
    ) -> Self {
        Self { scenario, corrector, seed, span_ns }
    }

    const fn run(&self, guest: u64) -> SimulationRun<'s> {
        let Self { scenario, corrector, seed, span_ns } = *self;
        SimulationRun { scenario, corrector, seed, guest, span_ns }
    }

    /// What happens to a guest.
    #[must_use]
    pub fn plan(&self, guest: u64) -> Vec<Planned> {
        plan::plan(self.scenario, self.seed, guest, self.span_ns)
    }

    /// These guests, in order; fewer if `goes_on` says so before one.
    #[must_use]
    pub fn guests(&self, which: Range<u64>, mut goes_on: impl FnMut() -> bool) -> Fleet {
        let mut fleet = Fleet::new();
        for guest in which {
            if !goes_on() {
                break;
            }
            self.guest(guest, &self.plan(guest), &mut fleet);
        }
        fleet
    }

    /// One guest to which this happens.
    fn guest(&self, guest: u64, plan: &[Planned], fleet: &mut Fleet) {
        let run = self.run(guest);
        let Some(new) = SimulatedGuest::new(run) else { return };
        let mut tally = SimulationTally::new(run, fleet);
        let world = new.run(plan, run, &mut tally);
        tally.end(&world);
    }
}
