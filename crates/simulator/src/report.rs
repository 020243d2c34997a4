//! What a run came to, as `parachron simulate --format json` prints it: the same for
//! the same seed.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::checks::Promise;
use crate::fault::FaultKind;
use crate::outcome::{Counts, Fleet, SimulationOutcome};
use crate::scenario::{STREAMS, Scenario, ScenarioCorrector};

/// Broken promises that are told one by one.
const TOLD: usize = 20;

/// Which fleet.
#[derive(Debug, Clone)]
pub struct Of {
    /// The guests, by number.
    pub guests: Range<u64>,
    /// The days of each.
    pub days: f64,
    /// Which of all that the scenario describes.
    pub seed: u64,
}

impl Of {
    /// What the caller says, or else the scenario.
    #[must_use]
    pub fn new(
        scenario: &Scenario,
        guests: Option<u64>,
        days: Option<f64>,
        seed: Option<u64>,
    ) -> Self {
        let replay = scenario.replay;
        let which = match (replay, guests) {
            (Some(replay), None) => replay.guest..replay.guest.saturating_add(1),
            _ => 0..guests.unwrap_or(scenario.guests),
        };
        let seed = seed.or(replay.map(|replay| replay.seed)).unwrap_or(1);
        Self { guests: which, days: days.unwrap_or(scenario.days), seed }
    }
}

/// The report of `parachron simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulateReport {
    /// The program's version.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// Which fleet of all that it describes.
    pub seed: u64,
    /// The version of the random streams that the seed is of: under another, it is another
    /// fleet's.
    pub streams: u32,
    /// How many guests there are.
    pub guests: u64,
    /// How many days of each.
    pub days: f64,
    /// An error up to this is right, s.
    pub right_s: f64,
    /// What each discipline made of them.
    pub disciplines: Vec<DisciplineReport>,
}

/// What one discipline made of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DisciplineReport {
    /// Which.
    pub discipline: ScenarioCorrector,
    /// How many guests were simulated: fewer than there are after Ctrl-C.
    pub simulated: u64,
    /// Share of the guests that were ever off by more than 1 ms, 100 ms, 1 s.
    pub ever_off: [f64; 3],
    /// Share of the time that they were.
    pub time_off: [f64; 3],
    /// Errors at the end: of half of the guests at most this, s; of 99 %.
    pub last_error_s: Option<[f64; 2]>,
    /// Faults that put a clock wrong, after which it was right again.
    pub recovered: u64,
    /// And after which it was not, until the next fault or the end.
    pub never_right: u64,
    /// Time to be right again: of half at most this, s; of 95 %; the longest of
    /// any, those that were not right again included.
    pub right_after_s: Option<[f64; 2]>,
    /// The longest, s.
    pub longest_wrong_s: f64,
    /// The guest that was off most.
    pub worst: Option<Worst>,
    /// Guests that broke a promise.
    pub broken: u64,
    /// The first of those.
    pub violations: Vec<BrokenPromise>,
    /// What was done.
    pub counts: Counts,
    /// A figure of all results: equal where runs were.
    pub digest: String,
}

/// The guest that was off most.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Worst {
    /// Its number.
    pub guest: u64,
    /// Its largest error, s: ahead is positive.
    pub error_s: f64,
    /// When, s since the start.
    pub at_s: f64,
    /// What had happened last.
    pub after: Option<FaultKind>,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BrokenPromise {
    /// By which guest.
    pub guest: u64,
    /// Which.
    pub promise: Promise,
    /// When, s since the start.
    pub at_s: f64,
    /// What was seen, s.
    pub seen_s: f64,
    /// What was allowed, s.
    pub allowed_s: f64,
}

impl SimulateReport {
    /// The report of what each discipline made of the same fleet.
    pub fn new<'f>(
        scenario: &Scenario,
        of: &Of,
        done: impl IntoIterator<Item = (ScenarioCorrector, &'f Fleet)>,
    ) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            seed: of.seed,
            streams: STREAMS.0,
            guests: of.guests.end - of.guests.start,
            days: of.days,
            right_s: scenario.limits.right_ms.0 / 1e3,
            disciplines: done
                .into_iter()
                .map(|(one, fleet)| discipline(one, fleet, of.days))
                .collect(),
        }
    }

    /// How many guests broke a promise.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.disciplines.iter().map(|one| one.broken).sum()
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn discipline(corrector: ScenarioCorrector, fleet: &Fleet, days: f64) -> DisciplineReport {
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
        discipline: corrector,
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

fn promise(outcome: &SimulationOutcome) -> Option<BrokenPromise> {
    let broken = outcome.violation?;
    Some(BrokenPromise {
        guest: outcome.guest,
        promise: broken.promise,
        at_s: seconds(broken.at_ns),
        seen_s: seconds(broken.seen_ns),
        allowed_s: seconds(broken.allowed_ns),
    })
}
