//! A run of many guests, of which each is alone: whoever calls may share them
//! out among threads as it likes, and gets the same bytes.

use core::ops::Range;

use crate::fault::Planned;
use crate::guest::SimulatedGuest;
use crate::outcome::Fleet;
use crate::plan;
use crate::scenario::{Scenario, ScenarioCorrector};
use crate::tally::SimulationTally;

/// A fleet that is simulated, for `span_ns` as [`Scenario::check`] has it.
#[derive(Debug, Clone, Copy)]
pub struct Simulation<'s> {
    /// What is simulated.
    pub scenario: &'s Scenario,
    /// What corrects the clocks.
    pub corrector: ScenarioCorrector,
    /// The same seed is the same fleet.
    pub seed: u64,
    /// How long, ns.
    pub span_ns: i64,
}

impl Simulation<'_> {
    /// What happens to a guest.
    #[must_use]
    pub fn plan(&self, guest: u64) -> Vec<Planned> {
        plan::plan(self.scenario, self.seed, guest, self.span_ns)
    }

    /// These guests, in order.
    #[must_use]
    pub fn guests(&self, which: Range<u64>) -> Fleet {
        let mut fleet = Fleet::default();
        for guest in which {
            let Some(new) = SimulatedGuest::new(self, guest) else { continue };
            let mut tally = SimulationTally::new(self, guest);
            let world = new.run(&self.plan(guest), self.span_ns, &mut tally);
            fleet.push(tally.end(&world));
        }
        fleet
    }
}
