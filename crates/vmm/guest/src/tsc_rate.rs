//! The TSC's rate by a timer, and how far it may be off.
//!
//! The timer's count is read between two readings of the TSC, so it is of a moment
//! in that bracket. A vCPU that is off its CPU meanwhile makes it wide. With half
//! the width of both brackets and one tick of the timer in doubt:
//!
//! ```text
//! bound = (width at the start / 2 + width at the end / 2 + one tick) / span
//! ```
//!
//! Brackets of 4 µs 50 ms apart: (2 + 2 + 0.28) µs / 50 ms = 86 ppm.

use pvclock::Hertz;
use pvclock::counter::Counter;

/// A measured rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredRate {
    /// The rate.
    pub(crate) rate: Hertz,
    /// How far the true one may be from it.
    pub(crate) bound: Hertz,
}

/// A timer that counts up and wraps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer<F> {
    /// Its count.
    pub(crate) read: F,
    /// Its bits.
    pub(crate) mask: u32,
    /// Its rate as a fraction, Hz.
    pub(crate) rate: (u64, u64),
}

/// How often a second the timer is looked at again, and how often at the most.
const SPANS_PER_SECOND: u64 = 20;
const SPANS_MAX: usize = 5;
/// A bound that suffices.
const GOOD_PPM: u64 = 100;
/// The narrowest of so many brackets is used.
const BRACKETS: u32 = 16;
/// Reads while waiting that a timer may show the same count for.
const READS_MAX: u32 = 1_000_000;

/// The timer's count, at some moment within `width` cycles around `tsc`.
#[derive(Debug, Clone, Copy, Default)]
struct RateSample {
    tsc: u64,
    width: u64,
    count: u32,
}

impl<F: Fn() -> u32> Timer<F> {
    /// The TSC's rate over 50 ms, or up to 250 ms while interruptions leave it
    /// uncertain.
    pub(crate) fn measure_tsc(&self, counter: &impl Counter) -> Option<MeasuredRate> {
        let mut samples = [RateSample::default(); SPANS_MAX + 1];
        samples[0] = self.narrowest(counter);
        let mut best: Option<MeasuredRate> = None;
        for last in 1..samples.len() {
            self.wait(samples[last - 1].count);
            samples[last] = self.narrowest(counter);
            for first in 0..last {
                let next = self.between(samples[first], samples[last]);
                best = match (best, next) {
                    (Some(best), Some(next)) if best.bound <= next.bound => Some(best),
                    (best, next) => next.or(best),
                };
            }
            if best.is_some_and(|best| best.bound.0 * 1_000_000 <= best.rate.0 * GOOD_PPM) {
                break;
            }
        }
        best
    }

    fn ticks(&self, first: u32, last: u32) -> u64 {
        u64::from(last.wrapping_sub(first) & self.mask)
    }

    fn wait(&self, start: u32) {
        let (rate, of) = self.rate;
        for _ in 0..READS_MAX {
            if self.ticks(start, (self.read)()) >= rate / of / SPANS_PER_SECOND {
                break;
            }
        }
    }

    fn narrowest(&self, counter: &impl Counter) -> RateSample {
        let once = || {
            let before = counter.read_ordered();
            let count = (self.read)();
            let width = counter.read_ordered().wrapping_sub(before);
            RateSample { tsc: before.wrapping_add(width / 2), width, count }
        };
        let mut best = once();
        for _ in 1..BRACKETS {
            let next = once();
            // Of two equally narrow ones either will do.
            if next.width <= best.width {
                best = next;
            }
        }
        best
    }

    fn between(&self, first: RateSample, last: RateSample) -> Option<MeasuredRate> {
        let (rate, of) = self.rate;
        let ticks = u128::from(self.ticks(first.count, last.count));
        let cycles = u128::from(last.tsc.checked_sub(first.tsc)?);
        let hertz = |cycles: u128| (cycles * u128::from(rate)).checked_div(ticks * u128::from(of));
        let tick = cycles.checked_div(ticks)?;
        let doubt = u128::from(first.width / 2 + last.width / 2) + tick + 1;
        Some(MeasuredRate {
            rate: Hertz(hertz(cycles)? as u64),
            bound: Hertz(hertz(doubt)? as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    const TSC: u64 = 2_000_000_000;
    const TIMER: u64 = 3_579_545;

    /// Measured where each read takes 2,000 cycles, or as many as `delay` says of a
    /// moment of the TSC.
    fn measured(delay: impl Fn(u64) -> Option<u64>) -> Option<MeasuredRate> {
        let now = Cell::new(7 * TSC);
        let pass = || {
            now.set(now.get() + delay(now.get()).unwrap_or(2_000));
            now.get()
        };
        let read = || (u128::from(pass()) * u128::from(TIMER) / u128::from(TSC)) as u32 & 0xff_ffff;
        Timer { read, mask: 0xff_ffff, rate: (TIMER, 1) }.measure_tsc(&pass)
    }

    #[test]
    fn a_rate_is_within_its_bound() {
        let MeasuredRate { rate, bound } = measured(|_| None).unwrap();
        // Brackets of 4,000 cycles, and a tick of 559, in 50 ms: 46 ppm.
        assert!((90_000..95_000).contains(&bound.0), "{bound:?}");
        assert!(rate.0.abs_diff(TSC) <= bound.0, "{rate:?}");
    }

    #[test]
    fn an_interrupted_end_costs_a_longer_measurement_only() {
        // All reads from 50 to 54 ms after the start take 100 µs.
        let start = 7 * TSC;
        let disturbed = start + TSC / 20..start + TSC / 20 + TSC / 250;
        let found = measured(|now| disturbed.contains(&now).then_some(200_000)).unwrap();
        assert!(found.bound.0 <= TSC / 10_000, "{found:?}");
        assert!(found.rate.0.abs_diff(TSC) <= found.bound.0, "{found:?}");
    }

    #[test]
    fn a_busy_host_leaves_a_wide_bound() {
        let found = measured(|now| Some(50_000 + now % 77_777)).unwrap();
        assert!(found.bound.0 > TSC / 10_000, "{found:?}");
        assert!(found.rate.0.abs_diff(TSC) <= found.bound.0, "{found:?}");
    }

    #[test]
    fn a_timer_that_stands_still_measures_nothing() {
        let now = Cell::new(0);
        let pass = || now.replace(now.get() + 2_000);
        let stands = Timer { read: || 5, mask: u32::MAX, rate: (TIMER, 1) };
        assert_eq!(stands.measure_tsc(&pass), None);
    }
}
