//! Interleaved rounds: every contender in turn, repeatedly, so that a change of
//! the machine's speed affects all of them alike; the minimum counts, because
//! noise only adds.

use std::hint::black_box;
use std::time::Instant;

/// Calls in one timed batch: at least 20 µs, so that the two clock reads around
/// it are negligible.
pub(crate) const CALLS: u32 = 2_000;

/// One way of reading a clock.
pub(crate) struct Contender<'a> {
    /// Its row's name.
    pub(crate) name: &'static str,
    batch: Box<dyn FnMut(u32) + 'a>,
    /// Nanoseconds a call, of each round.
    rounds_ns: Vec<f64>,
}

impl<'a> Contender<'a> {
    /// A contender with a loop of its own: no call through a pointer between two
    /// reads.
    pub(crate) fn new<T>(name: &'static str, mut read: impl FnMut() -> T + 'a) -> Self {
        let batch = Box::new(move |calls| {
            for _ in 0..calls {
                black_box(read());
            }
        });
        Self { name, batch, rounds_ns: Vec::new() }
    }

    /// The fastest round, ns a call.
    pub(crate) fn min_ns(&self) -> f64 {
        self.rounds_ns.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The median of all rounds, ns a call.
    pub(crate) fn median_ns(&self) -> f64 {
        median(self.rounds_ns.clone())
    }
}

/// The upper of the two in the middle; of none no number.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs `rounds` rounds over all contenders, after one that does not count.
pub(crate) fn run(contenders: &mut [Contender<'_>], rounds: u32) {
    for contender in contenders.iter_mut() {
        (contender.batch)(CALLS);
    }
    for _ in 0..rounds {
        for contender in contenders.iter_mut() {
            let start = Instant::now();
            (contender.batch)(CALLS);
            let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
            contender.rounds_ns.push(ns);
        }
    }
}
