//! What a call costs, timed in batches against a tick counter.
//!
//! A sample is one batch: ticks before, the calls, ticks after, less what the
//! two tick readings cost by themselves, divided by the calls. Batches are
//! long enough that the tick readings hardly count, and the subjects take
//! turns, so that what else the machine does falls on all of them alike.

use crate::distribution::Distribution;

/// Empty batches from which the cost of reading the ticks is taken.
const EMPTY_BATCHES: u32 = 2000;

/// Samples of one subject in a row, after one that warms the caches.
const SAMPLES_PER_TURN: u32 = 16;

/// The most calls in a batch, however cheap the call.
const MOST_CALLS: u64 = 1 << 16;

/// Makes the call so many times.
pub type Batch<'a> = Box<dyn FnMut(u64) + 'a>;

/// Times batches by a tick counter.
#[derive(Debug)]
pub struct Stopwatch<T> {
    ticks: T,
    overhead: u64,
}

impl<T: FnMut() -> u64> Stopwatch<T> {
    /// A stopwatch that knows its own cost.
    pub fn new(ticks: T) -> Self {
        let mut stopwatch = Self { ticks, overhead: 0 };
        let mut empty: Batch = Box::new(|_| ());
        let mut overhead = u64::MAX;
        for _ in 0..EMPTY_BATCHES {
            overhead = overhead.min(stopwatch.time(&mut empty, 0));
        }
        stopwatch.overhead = overhead;
        stopwatch
    }

    /// Ticks that pass between the two readings around an empty batch, at least.
    pub fn overhead(&self) -> u64 {
        self.overhead
    }

    /// Ticks a batch of `calls` took, the stopwatch's own cost subtracted.
    pub fn time(&mut self, batch: &mut Batch, calls: u64) -> u64 {
        let start = (self.ticks)();
        batch(calls);
        let end = (self.ticks)();
        end.saturating_sub(start).saturating_sub(self.overhead)
    }

    /// The number of calls, a power of two, that makes a batch of at least
    /// `batch_ticks`; the shortest of three decides, so that one interrupt
    /// does not.
    fn calls_for(&mut self, batch: &mut Batch, batch_ticks: u64) -> u64 {
        let mut calls = 1;
        while calls < MOST_CALLS {
            let shortest = (0..3).map(|_| self.time(batch, calls)).min();
            if shortest >= Some(batch_ticks) {
                break;
            }
            calls *= 2;
        }
        calls
    }
}

/// What was measured of one subject, in ticks a call.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Each sample: ticks a call, the mean over its batch.
    pub ticks: Distribution,
    /// Calls in a batch.
    pub calls_per_sample: u64,
}

/// Nothing measured yet, and batches so long that they last at least
/// `batch_ticks`, one for each of `subjects`.
pub fn prepare<T: FnMut() -> u64>(
    stopwatch: &mut Stopwatch<T>,
    subjects: &mut [Batch],
    batch_ticks: u64,
) -> Vec<Cost> {
    let cost = |batch: &mut Batch| Cost {
        ticks: Distribution::new(),
        calls_per_sample: stopwatch.calls_for(batch, batch_ticks),
    };
    subjects.iter_mut().map(cost).collect()
}

/// Measures `subjects` in turns and adds to their `costs`, until `samples` of
/// each were taken or `proceed` (called after each round) returns false; there is one
/// round in any case.
pub fn measure<T: FnMut() -> u64>(
    stopwatch: &mut Stopwatch<T>,
    subjects: &mut [Batch],
    costs: &mut [Cost],
    samples: u64,
    mut proceed: impl FnMut() -> bool,
) {
    let mut taken = 0;
    loop {
        for (batch, cost) in subjects.iter_mut().zip(costs.iter_mut()) {
            let calls = cost.calls_per_sample;
            stopwatch.time(batch, calls);
            for _ in 0..SAMPLES_PER_TURN {
                cost.ticks.record(stopwatch.time(batch, calls) as f64 / calls as f64);
            }
        }
        taken += u64::from(SAMPLES_PER_TURN);
        if taken >= samples || !proceed() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// A machine whose time passes by `read_cost` at each tick reading.
    struct Machine {
        now: Cell<u64>,
        read_cost: u64,
    }

    impl Machine {
        fn stopwatch(&self) -> Stopwatch<impl FnMut() -> u64 + '_> {
            Stopwatch::new(|| {
                self.now.set(self.now.get() + self.read_cost);
                self.now.get()
            })
        }

        /// A subject that takes `cost(n)` ticks at its n-th call.
        fn subject<'a>(&'a self, mut cost: impl FnMut(u64) -> u64 + 'a) -> Batch<'a> {
            let mut made = 0;
            Box::new(move |calls| {
                for _ in 0..calls {
                    self.now.set(self.now.get() + cost(made));
                    made += 1;
                }
            })
        }
    }

    #[test]
    fn a_rare_slow_call_is_an_outlier_and_the_maximum() {
        let machine = Machine { now: Cell::new(0), read_cost: 20 };
        let mut stopwatch = machine.stopwatch();
        let mut subjects =
            [machine.subject(|made| if made % 100 == 99 { 500_000 } else { 3000 + made % 7 })];
        let mut costs = prepare(&mut stopwatch, &mut subjects, 2000);
        measure(&mut stopwatch, &mut subjects, &mut costs, 1600, || true);
        let cost = &costs[0];
        assert_eq!(cost.calls_per_sample, 1);
        assert_eq!(cost.ticks.samples(), 1600);
        assert!((15..=17).contains(&cost.ticks.outliers()), "{}", cost.ticks.outliers());
        assert_eq!(cost.ticks.spread().map(|spread| spread.max), Some(500_000.0));
    }

    #[test]
    fn measuring_stops_on_request() {
        let machine = Machine { now: Cell::new(0), read_cost: 1 };
        let mut subjects = [machine.subject(|_| 50), machine.subject(|_| 70)];
        let mut stopwatch = machine.stopwatch();
        let mut costs = prepare(&mut stopwatch, &mut subjects, 1000);
        let mut rounds = 0;
        measure(&mut stopwatch, &mut subjects, &mut costs, u64::MAX, || {
            rounds += 1;
            rounds < 3
        });
        assert_eq!([costs[0].ticks.samples(), costs[1].ticks.samples()], [48, 48]);
        // A second measurement adds to the first.
        measure(&mut stopwatch, &mut subjects, &mut costs, 1, || true);
        assert_eq!([costs[0].ticks.samples(), costs[1].ticks.samples()], [64, 64]);
    }

    #[test]
    fn a_call_without_cost_ends_too() {
        let machine = Machine { now: Cell::new(0), read_cost: 0 };
        let mut subjects = [machine.subject(|_| 0)];
        let mut stopwatch = machine.stopwatch();
        let mut costs = prepare(&mut stopwatch, &mut subjects, 1000);
        measure(&mut stopwatch, &mut subjects, &mut costs, 1, || true);
        assert_eq!(costs[0].calls_per_sample, MOST_CALLS);
        assert_eq!(costs[0].ticks.spread().map(|spread| spread.max), Some(0.0));
    }

    proptest! {
        /// Whatever the stopwatch itself costs, a call's cost comes out, to
        /// the 0.1 % a distribution keeps.
        #[test]
        fn the_true_cost_is_found(cost in 1u64..100_000, read_cost in 0u64..500) {
            let machine = Machine { now: Cell::new(7), read_cost };
            let mut stopwatch = machine.stopwatch();
            prop_assert_eq!(stopwatch.overhead(), read_cost);
            let mut subjects = [machine.subject(|_| cost)];
            let mut found = prepare(&mut stopwatch, &mut subjects, 2500);
            measure(&mut stopwatch, &mut subjects, &mut found, 64, || true);
            let spread = found[0].ticks.spread().unwrap();
            prop_assert_eq!((spread.min, spread.max), (cost as f64, cost as f64));
            prop_assert!((spread.median / cost as f64 - 1.0).abs() <= 0.001);
            prop_assert!(found[0].calls_per_sample * cost >= 2500);
        }
    }
}
