//! What a run came to, as `--format json` prints it: the same for the same seed.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use simulator::fault::FaultKind;
use simulator::outcome::Counts;
use simulator::{Corrector, Fleet, Outcome, Promise, Scenario};

use super::run::Done;

/// Broken promises that are told one by one.
const TOLD: usize = 20;

/// Which fleet.
#[derive(Debug, Clone)]
pub(super) struct Of {
    pub(super) guests: Range<u64>,
    pub(super) days: f64,
    pub(super) seed: u64,
}

/// The report of `parachron simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SimulateReport {
    /// The program's version.
    pub(super) version: String,
    /// The scenario's name.
    pub(super) scenario: String,
    /// What it shows.
    pub(super) about: String,
    /// Which fleet of all that it describes.
    pub(super) seed: u64,
    /// How many guests there are.
    pub(super) guests: u64,
    /// How many days of each.
    pub(super) days: f64,
    /// An error up to this is right, s.
    pub(super) right_s: f64,
    /// What each discipline made of them.
    pub(super) disciplines: Vec<DisciplineReport>,
}

/// What one discipline made of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DisciplineReport {
    /// Which.
    pub(super) discipline: Corrector,
    /// How many guests were simulated: fewer than there are after Ctrl-C.
    pub(super) simulated: u64,
    /// Share of the guests that were ever off by more than 1 ms, 100 ms, 1 s.
    pub(super) ever_off: [f64; 3],
    /// Share of the time that they were.
    pub(super) time_off: [f64; 3],
    /// Errors at the end: of half of the guests at most this, s; of 99 %.
    pub(super) last_error_s: Option<[f64; 2]>,
    /// Faults that put a clock wrong, after which it was right again.
    pub(super) recovered: u64,
    /// And after which it was not, until the next fault or the end.
    pub(super) never_right: u64,
    /// Time to be right again: of half at most this, s; of 95 %; the longest of
    /// any, those that were not right again included.
    pub(super) right_after_s: Option<[f64; 2]>,
    /// The longest, s.
    pub(super) longest_wrong_s: f64,
    /// The guest that was off most.
    pub(super) worst: Option<Worst>,
    /// Guests that broke a promise.
    pub(super) broken: u64,
    /// The first of those.
    pub(super) violations: Vec<BrokenPromise>,
    /// What was done.
    pub(super) counts: Counts,
    /// A figure of all results: equal where runs were.
    pub(super) digest: String,
}

/// The guest that was off most.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Worst {
    /// Its number.
    pub(super) guest: u64,
    /// Its largest error, s: ahead is positive.
    pub(super) error_s: f64,
    /// When, s since the start.
    pub(super) at_s: f64,
    /// What had happened last.
    pub(super) after: Option<FaultKind>,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct BrokenPromise {
    /// By which guest.
    pub(super) guest: u64,
    /// Which.
    pub(super) promise: Promise,
    /// When, s since the start.
    pub(super) at_s: f64,
    /// What was seen, s.
    pub(super) seen_s: f64,
    /// What was allowed, s.
    pub(super) allowed_s: f64,
}

impl SimulateReport {
    pub(super) fn of(scenario: &Scenario, of: &Of, done: &[Done]) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            seed: of.seed,
            guests: of.guests.end - of.guests.start,
            days: of.days,
            right_s: scenario.limits.right_ms.0 / 1e3,
            disciplines: done.iter().map(|one| discipline(one, of.days)).collect(),
        }
    }

    /// How many guests broke a promise.
    pub(super) fn broken(&self) -> u64 {
        self.disciplines.iter().map(|one| one.broken).sum()
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn discipline(done: &Done, days: f64) -> DisciplineReport {
    let fleet = &done.fleet;
    let count = fleet.guests.len().max(1) as f64;
    let off_for = |index: usize| fleet.guests.iter().map(|one| one.off_for_ns[index]).sum::<i64>();
    let longest_s = seconds(fleet.guests.iter().map(|it| it.slowest_ns).max().unwrap_or(0));
    let quantiles = |of: [f64; 2]| {
        let [low, high] = of.map(|share| fleet.recoveries.quantile_ns(share));
        // A quantile is the end of its bin.
        Some([low?, high?].map(|ns| (ns as f64 / 1e9).min(longest_s)))
    };
    let broken: Vec<BrokenPromise> = fleet.broken().filter_map(promise).collect();
    DisciplineReport {
        discipline: done.corrector,
        simulated: fleet.guests.len() as u64,
        ever_off: fleet.ever_off().map(|off| off as f64 / count),
        time_off: [0, 1, 2].map(|index| off_for(index) as f64 / 86_400e9 / days / count),
        last_error_s: last_errors(fleet),
        recovered: fleet.recoveries.count(),
        never_right: fleet.never_right,
        right_after_s: quantiles([0.5, 0.95]),
        longest_wrong_s: longest_s,
        worst: fleet.worst().map(|worst| Worst {
            guest: worst.guest,
            error_s: seconds(worst.worst_ns),
            at_s: seconds(worst.worst_at_ns),
            after: worst.worst_after,
        }),
        broken: broken.len() as u64,
        violations: broken.into_iter().take(TOLD).collect(),
        counts: fleet.counts,
        digest: format!("{:016x}", fleet.digest()),
    }
}

fn last_errors(fleet: &Fleet) -> Option<[f64; 2]> {
    let mut sizes: Vec<i64> = fleet.guests.iter().map(|one| one.last_ns.saturating_abs()).collect();
    sizes.sort_unstable();
    let at = |share: f64| sizes.get(((sizes.len() as f64 * share) as usize).min(sizes.len() - 1));
    (!sizes.is_empty()).then(|| Some([seconds(*at(0.5)?), seconds(*at(0.99)?)]))?
}

fn promise(outcome: &Outcome) -> Option<BrokenPromise> {
    let broken = outcome.violation?;
    Some(BrokenPromise {
        guest: outcome.guest,
        promise: broken.promise,
        at_s: seconds(broken.at_ns),
        seen_s: seconds(broken.seen_ns),
        allowed_s: seconds(broken.allowed_ns),
    })
}
