//! A run of many guests, of which each is alone: whoever calls may share them
//! out among threads as it likes, and gets the same bytes.

use core::ops::Range;

use crate::fault::{Fault, Planned};
use crate::guest::SimulatedGuest;
use crate::outcome::Fleet;
use crate::random::{Purpose, RandomStream};
use crate::scenario::{Scenario, ScenarioCorrector, ns};
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
        plan(self.scenario, self.seed, guest, self.span_ns)
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

// What happens to a guest, and when.

/// A guest needs this long between two faults to be looked at, ns.
const APART_NS: i64 = 2_000_000_000;

/// Faults of one guest: beyond this a run is one long fault.
const MOST: usize = 100_000;

/// What happens to a guest, in order. One that is away cannot be taken away, and at
/// the end of the run all are back: what would be otherwise is left out.
#[must_use]
pub(crate) fn plan(scenario: &Scenario, seed: u64, guest: u64, span_ns: i64) -> Vec<Planned> {
    let faults = (0..).zip(&scenario.faults);
    let mut all: Vec<Planned> =
        faults.flat_map(|(index, fault)| plan_fault(fault, seed, guest, index, span_ns)).collect();
    all.sort_by_key(|event| (event.at_ns, event.fault.kind));
    let mut free_ns = APART_NS;
    all.retain(|event| {
        let lives_ns = if event.fault.kind.is_elsewhere() { 0 } else { event.length_ns };
        let until_ns = event.at_ns.saturating_add(lives_ns).saturating_add(APART_NS);
        let is_free = event.at_ns >= free_ns && until_ns < span_ns;
        if is_free {
            free_ns = until_ns;
        }
        is_free
    });
    all
}

/// The times of one kind.
fn plan_fault(fault: &Fault, seed: u64, guest: u64, index: u32, span_ns: i64) -> Vec<Planned> {
    let mut stream = RandomStream::new(seed, guest, Purpose::Fault(index));
    let mut times = Vec::new();
    if let Some(at_s) = fault.at_s {
        times.push(ns(at_s) + (stream.unit() * fault.within_s * 1e9) as i64);
    }
    if let Some(rate) = fault.per_day.filter(|rate| *rate > 0.0) {
        let mut at_ns = 0_i64;
        while times.len() < MOST {
            let wait_ns = stream.exponential() * 86_400e9 / rate;
            at_ns = at_ns.saturating_add(wait_ns as i64);
            if at_ns >= span_ns {
                break;
            }
            times.push(at_ns);
        }
    }
    let [low, high] = fault.length_s.map(|length| length.max(1e-6));
    let length = |stream: &mut RandomStream| {
        let exponent = stream.between(libm::log(low), libm::log(high));
        (libm::exp(exponent) * 1e9) as i64
    };
    let planned = |at_ns| Planned { at_ns, length_ns: length(&mut stream), fault: *fault };
    times.into_iter().map(planned).collect()
}
