//! A failing guest with the fewest things that happen to it.

use crate::checks::Promise;
use crate::fault::Planned;
use crate::fleet::Simulation;
use crate::outcome::Fleet;
use crate::scenario::{Replay, STREAMS, Scenario};

/// Runs that are tried at most.
const TRIES: usize = 2000;

/// The fewest events with which this guest still breaks this promise.
#[must_use]
pub fn shrink(simulation: &Simulation<'_>, guest: u64, promise: Promise) -> Vec<Planned> {
    fewest(simulation.plan(guest), TRIES, |plan| {
        let mut fleet = Fleet::new();
        simulation.guest(guest, plan, &mut fleet, None);
        let broken = fleet.guests.first().and_then(|outcome| outcome.violation);
        broken.is_some_and(|broken| broken.promise == promise)
    })
}

/// The fewest that still break: parts of halving size are left out as long as that
/// goes (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), and then one by one; what is
/// left after `most` tries.
fn fewest<T: Clone>(mut plan: Vec<T>, most: usize, mut breaks: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let (mut size, mut tries) = (plan.len(), 0);
    while size > 0 {
        let (mut at, before) = (0, plan.len());
        while at < plan.len() {
            if tries == most {
                return plan;
            }
            tries += 1;
            let mut fewer = plan.clone();
            fewer.drain(at..(at + size).min(plan.len()));
            if breaks(&fewer) {
                plan = fewer;
            } else {
                at += size;
            }
        }
        // At one it goes on until none can be left out.
        let is_done = size == 1 && plan.len() == before;
        size = if is_done { 0 } else { (size / 2).max(1).min(plan.len()) };
    }
    plan
}

/// The scenario in which only this happens, to that guest.
#[must_use]
pub fn replay(scenario: &Scenario, guest: u64, seed: u64, events: Vec<Planned>) -> Scenario {
    let replay = Some(Replay { version: STREAMS, guest, seed });
    Scenario { faults: Vec::new(), events, replay, ..scenario.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_tried_than_may_be() {
        let tried = |most| {
            let mut tries = 0;
            let left = fewest((0..1000).collect(), most, |plan: &[u32]| {
                tries += 1;
                [17, 900].iter().all(|it| plan.contains(it))
            });
            (left, tries)
        };
        let (left, tries) = tried(2000);
        assert_eq!(left, [17, 900]);
        assert!(tries < 200, "{tries}");
        let (left, tries) = tried(5);
        assert!(left.contains(&17) && left.contains(&900) && left.len() > 2);
        assert_eq!(tries, 5);
    }
}
