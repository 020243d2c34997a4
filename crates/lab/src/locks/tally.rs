//! What the rounds of one way of waiting counted.

use std::time::Duration;

use guest::contention::{BUCKETS, ContentionCount, middle};
use guest::protocol::Words;
use instruments::measurements::Spread;
use pvclock::Hertz;
use serde::Serialize;

use crate::bench::median;

/// What shows that a queue waited for a vCPU that did not run: hand-overs of this length and
/// more, far beyond an exit and a wake-up, took this share of the round.
const OFF_CPU: Duration = Duration::from_millis(1);
const OFF_CPU_SHARE: f64 = 0.5;

/// One lock in one place: medians of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Contention {
    /// How its waiters wait.
    pub(super) lock: &'static str,
    /// vCPUs that take it in turn, and CPUs that they share.
    pub(super) place: String,
    pub(super) hold_us: f64,
    pub(super) takes_per_s: f64,
    pub(super) handovers_per_s: f64,
    /// From one vCPU's freeing it to the next one's having it, within 7 %. Of all rounds.
    pub(super) handover_ns: Option<Spread>,
    pub(super) halts_per_take: f64,
    pub(super) kicks_per_take: f64,
    pub(super) spins_per_take: f64,
    pub(super) fairness: f64,
    pub(super) cpus_had: f64,
    /// What an exit to this process costs on this machine: a halt and a kick are one each.
    pub(super) exit_ns: f64,
    pub(super) rounds: u64,
}

/// What the vCPUs of one round counted.
#[derive(Debug, Clone)]
pub(super) struct LockRound {
    /// By vCPU.
    pub(super) counted: Vec<ContentionCount>,
    /// How many hand-overs' spans are in each bucket.
    pub(super) spans: [u64; BUCKETS],
    /// How many CPUs this process had meanwhile.
    pub(super) cpus: f64,
}

impl LockRound {
    /// Adds the records of a vCPU's ring. A guest may write anything there.
    pub(super) fn add_spans(&mut self, records: &[Words]) {
        for [bucket, count, ..] in records {
            let Some(span) = usize::try_from(*bucket).ok().and_then(|b| self.spans.get_mut(b))
            else {
                continue;
            };
            *span = span.saturating_add(*count);
        }
    }

    fn sum(&self, pick: fn(&ContentionCount) -> u64) -> f64 {
        self.counted.iter().map(|counted| pick(counted) as f64).sum()
    }

    /// Takes a second of the vCPUs together, each by its own time: some may have begun
    /// or ended late.
    fn a_second(&self, pick: fn(&ContentionCount) -> u64, tsc: Hertz) -> f64 {
        let rates = self.counted.iter().filter(|counted| counted.cycles > 0);
        rates.map(|counted| pick(counted) as f64 / counted.cycles as f64).sum::<f64>()
            * tsc.0 as f64
    }

    pub(super) fn handovers_per_s(&self, tsc: Hertz) -> f64 {
        self.a_second(|counted| counted.handovers, tsc)
    }

    /// Whether its queue waited mostly for vCPUs that did not run: by the hand-overs that
    /// took longer than one between two that do.
    pub(super) fn waited_for_vcpus(&self, tsc: Hertz) -> bool {
        let long = OFF_CPU.as_nanos() as f64 * tsc.0 as f64 / 1e9;
        let waits = self.spans.iter().enumerate();
        let waits = waits.map(|(bucket, count)| (middle(bucket) as f64, *count as f64));
        let waited: f64 = waits.filter(|(cycles, _)| *cycles >= long).map(|(a, b)| a * b).sum();
        let longest = self.counted.iter().map(|counted| counted.cycles).max().unwrap_or(0);
        waited >= longest as f64 * OFF_CPU_SHARE && waited > 0.0
    }

    fn a_take(&self, pick: fn(&ContentionCount) -> u64) -> f64 {
        self.sum(pick) / self.sum(|counted| counted.takes).max(1.0)
    }

    fn fairness(&self) -> f64 {
        let least = self.counted.iter().map(|counted| counted.takes).min().unwrap_or(0);
        let share = self.sum(|counted| counted.takes) / self.counted.len().max(1) as f64;
        if share > 0.0 { least as f64 / share } else { 1.0 }
    }
}

/// All rounds.
#[derive(Debug, Clone)]
pub(super) struct LockTally(Vec<LockRound>);

impl LockTally {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, round: LockRound) {
        self.0.push(round);
    }

    pub(super) fn rounds(&self) -> &[LockRound] {
        &self.0
    }

    fn median_of(&self, figure: impl Fn(&LockRound) -> f64) -> f64 {
        median(self.0.iter().map(figure).collect())
    }

    /// The figures; what was contended for is the caller's to fill in.
    pub(super) fn row(&self, tsc: Hertz) -> Contention {
        Contention {
            lock: "",
            place: String::new(),
            hold_us: 0.0,
            takes_per_s: self.median_of(|round| round.a_second(|counted| counted.takes, tsc)),
            handovers_per_s: self.median_of(|round| round.handovers_per_s(tsc)),
            handover_ns: self.spread(tsc),
            halts_per_take: self.median_of(|round| round.a_take(|counted| counted.halts)),
            kicks_per_take: self.median_of(|round| round.a_take(|counted| counted.kicks)),
            spins_per_take: self.median_of(|round| round.a_take(|counted| counted.spins)),
            fairness: self.median_of(LockRound::fairness),
            cpus_had: self.median_of(|round| round.cpus),
            exit_ns: 0.0,
            rounds: self.0.len() as u64,
        }
    }

    fn spread(&self, tsc: Hertz) -> Option<Spread> {
        let mut spans = [0_u64; BUCKETS];
        for round in &self.0 {
            for (sum, count) in spans.iter_mut().zip(round.spans) {
                *sum = sum.saturating_add(count);
            }
        }
        let all = spans.iter().fold(0_u64, |all, count| all.saturating_add(*count));
        let at = |share: f64| {
            let rank = (all as f64 * share).ceil().max(1.0) as u64;
            let mut below = 0_u64;
            let bucket = spans.iter().position(|count| {
                below = below.saturating_add(*count);
                below >= rank
            })?;
            Some(middle(bucket) as f64 * 1e9 / tsc.0 as f64)
        };
        Some(Spread { min: at(0.0)?, median: at(0.5)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

#[cfg(test)]
mod tests {
    use guest::contention::bucket;

    use super::*;

    const TSC: Hertz = Hertz(1_000_000_000);

    fn round(takes: [u64; 2], spans: &[(u64, u64)]) -> LockRound {
        let counted = takes.map(|takes| ContentionCount {
            takes,
            handovers: takes / 2,
            halts: 10,
            kicks: 20,
            spins: 30,
            cycles: 1_000_000,
        });
        let mut round = LockRound { counted: counted.to_vec(), spans: [0; BUCKETS], cpus: 1.5 };
        let records: Vec<_> =
            spans.iter().map(|(ns, count)| [bucket(*ns) as u64, *count, 0, 0, 0, 0]).collect();
        round.add_spans(&records);
        round
    }

    #[test]
    fn a_row_is_the_medians_of_the_rounds() {
        let mut tally = LockTally::new();
        for takes in [[30, 10], [1000, 1000], [60, 20]] {
            tally.add(round(takes, &[(100, 50), (5000, 1)]));
        }
        let row = tally.row(TSC);
        assert_eq!((row.takes_per_s, row.handovers_per_s), (80_000.0, 40_000.0));
        assert_eq!((row.halts_per_take, row.kicks_per_take, row.spins_per_take), (0.25, 0.5, 0.75));
        assert_eq!((row.fairness, row.cpus_had, row.rounds), (0.5, 1.5, 3));
        let spread = row.handover_ns.unwrap();
        assert!((spread.median - 100.0).abs() < 7.0 && (spread.max - 5000.0).abs() < 350.0);
        assert!((spread.p99 - 5000.0).abs() < 350.0, "1 of 51 is above 99 %");
    }

    #[test]
    fn a_guest_that_reports_nonsense_makes_no_panic() {
        let mut tally = LockTally::new();
        let mut hostile = round([0, 0], &[]);
        hostile.add_spans(&[[u64::MAX; 6], [1, u64::MAX, 0, 0, 0, 0], [2, u64::MAX, 0, 0, 0, 0]]);
        hostile.counted.push(ContentionCount::decode(&[u64::MAX; 6]));
        tally.add(hostile);
        assert!(tally.row(TSC).handover_ns.is_some());
        assert!(LockTally::new().row(TSC).handover_ns.is_none());
    }
}
