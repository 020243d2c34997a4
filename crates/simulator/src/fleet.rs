//! A run of many guests, of which each is alone: whoever calls may share them
//! out among threads as it likes, and gets the same bytes.

use core::ops::Range;

use crate::fault::Planned;
use crate::guest::SimulatedGuest;
use crate::outcome::Fleet;
use crate::plan;
use crate::run::SimulationRun;
use crate::scenario::{Scenario, ScenarioCorrector};
use crate::scrape::SimulatedScrape;
use crate::tally::{Look, SimulationTally};

/// A fleet that is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Simulation<'s> {
    scenario: &'s Scenario,
    corrector: ScenarioCorrector,
    seed: u64,
    span_ns: i64,
    scraped_each_ns: Option<i64>,
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
        Self { scenario, corrector, seed, span_ns, scraped_each_ns: None }
    }

    const fn run(&self, guest: u64) -> SimulationRun<'s> {
        let Self { scenario, corrector, seed, span_ns, scraped_each_ns } = *self;
        SimulationRun { scenario, corrector, seed, guest, span_ns, scraped_each_ns }
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
            self.guest(guest, &self.plan(guest), &mut fleet, None);
        }
        fleet
    }

    /// One guest to which this happens.
    pub fn guest(
        &self,
        guest: u64,
        plan: &[Planned],
        fleet: &mut Fleet,
        watch: Option<&mut dyn FnMut(Look)>,
    ) {
        let run = self.run(guest);
        let Some(new) = SimulatedGuest::new(run) else { return };
        let mut tally = SimulationTally::new(run, fleet);
        if let Some(watch) = watch {
            tally = tally.watched(watch);
        }
        let world = new.run(plan, run, &mut tally);
        tally.end(&world);
    }

    /// One guest to which this happens, scraped so often, from a third of that on.
    pub fn scraped(
        &self,
        guest: u64,
        plan: &[Planned],
        each_ns: i64,
        scrape: &mut dyn FnMut(&SimulatedScrape),
    ) {
        let run = SimulationRun { scraped_each_ns: Some(each_ns.max(1)), ..self.run(guest) };
        let Some(new) = SimulatedGuest::new(run) else { return };
        new.run(plan, run, &mut SimulationTally::silent(run).scraping(scrape));
    }
}
