//! A counter's rate against a reference clock, by paired readings.
//!
//! The counter is read between two readings of the reference, so its time
//! is their middle ± half their distance. Two such pairs, long after each other,
//! give the rate, and their widths its bound.

use crate::measurements::TscRate;

/// One reading of the counter between two of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingPair {
    /// The reference before, ns.
    pub before_ns: u64,
    /// The counter.
    pub tsc: u64,
    /// The reference after, ns.
    pub after_ns: u64,
}

impl ReadingPair {
    fn width_ns(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }

    /// The tightest of `tries` pairs taken by `take`: an interrupt between
    /// the readings widens a pair, so a few tries find one without.
    pub fn tightest(tries: u32, mut take: impl FnMut() -> Self) -> Self {
        let mut best = take();
        for _ in 1..tries {
            let pair = take();
            if pair.width_ns() < best.width_ns() {
                best = pair;
            }
        }
        best
    }
}

/// The counter's rate from two pairs; `None` unless both clocks advanced and
/// the pairs do not overlap. `resolution_ns` is the reference's own step,
/// which every reading of it may be late by.
pub fn rate(first: ReadingPair, last: ReadingPair, resolution_ns: u64) -> Option<TscRate> {
    let cycles = last.tsc.checked_sub(first.tsc).filter(|cycles| *cycles > 0)? as f64;
    last.before_ns.checked_sub(first.after_ns).filter(|gap| *gap > 0)?;
    // Twice the distance of the middles, so as to stay in integers.
    let doubled = u128::from(last.before_ns) + u128::from(last.after_ns)
        - u128::from(first.before_ns)
        - u128::from(first.after_ns);
    let elapsed_ns = doubled as f64 / 2.0;
    let doubt_ns =
        (first.width_ns() + last.width_ns()) as f64 / 2.0 + 2.0 * resolution_ns.max(1) as f64;
    // The truth is cycles/(elapsed ± doubt); relative to cycles/elapsed its
    // larger side is doubt/(elapsed − doubt).
    let bound = doubt_ns / (elapsed_ns - doubt_ns);
    (bound > 0.0).then_some(TscRate {
        hz: cycles / elapsed_ns * 1e9,
        bound_ppm: bound * 1e6,
        over_s: elapsed_ns / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stopped_or_backward_counter_has_no_rate() {
        let pair = |at: u64, tsc| ReadingPair { before_ns: at, tsc, after_ns: at + 20 };
        assert_eq!(rate(pair(0, 100), pair(1000, 100), 1), None);
        assert_eq!(rate(pair(0, 100), pair(1000, 99), 1), None);
        assert_eq!(rate(pair(0, 100), pair(10, 200), 1), None);
    }

    #[test]
    fn the_tightest_pair_is_taken() {
        let mut widths = [30, 20, 5000].into_iter();
        let pair = ReadingPair::tightest(3, || ReadingPair {
            before_ns: 0,
            tsc: 0,
            after_ns: widths.next().unwrap_or(0),
        });
        assert_eq!(pair.after_ns, 20);
    }

    proptest! {
        /// A counter of known rate, read somewhere inside each pair, against
        /// a reference that shows multiples of its step.
        #[test]
        fn the_truth_is_within_the_bound(
            hz in 1_000_000u64..6_000_000_000,
            elapsed_ns in 1_000_000u64..10_000_000_000,
            (first_width, last_width) in (1u64..5000, 1u64..5000),
            (first_at, last_at) in (0.0..1.0f64, 0.0..1.0f64),
            step in 1u64..100,
        ) {
            let show = |ns: u64| ns / step * step;
            let tsc_at = |ns: f64| (ns / 1e9 * hz as f64) as u64;
            let pair = |start: u64, width: u64, at: f64| ReadingPair {
                before_ns: show(start),
                tsc: tsc_at(start as f64 + at * width as f64),
                after_ns: show(start + width),
            };
            let first = pair(1_000_000, first_width, first_at);
            let last = pair(1_000_000 + first_width + elapsed_ns, last_width, last_at);
            let rate = rate(first, last, step).unwrap();
            let error_ppm = (rate.hz / hz as f64 - 1.0).abs() * 1e6;
            // The counter itself shows whole cycles: one at either end.
            let cycle_ppm = 2.0 / (elapsed_ns as f64 / 1e9 * hz as f64) * 1e6;
            prop_assert!(error_ppm <= rate.bound_ppm + cycle_ppm, "{rate:?} {hz} {error_ppm}");
        }
    }
}
