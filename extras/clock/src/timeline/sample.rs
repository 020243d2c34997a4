//! Readings of the system's clock between two readings of the TSC, and the
//! bounds on the TSC's rate that they give.

use crate::timeline::segment::SegmentRate;

/// The system's clock showed `ns` at some moment from `before` to `after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineSample {
    /// The TSC before the clock was read.
    pub before: u64,
    /// CLOCK_MONOTONIC, ns.
    pub ns: u64,
    /// The TSC after it.
    pub after: u64,
}

impl TimelineSample {
    /// Cycles between the two readings of the TSC.
    pub const fn width(&self) -> u64 {
        self.after.wrapping_sub(self.before)
    }

    /// The TSC in the middle: the best guess of when the clock was read.
    pub const fn middle(&self) -> u64 {
        self.before.wrapping_add(self.width() / 2)
    }
}

/// Between which bounds the TSC's rate was, from one sample to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// It was at least this.
    pub low: SegmentRate,
    /// The best guess.
    pub middle: SegmentRate,
    /// It was at most this.
    pub high: SegmentRate,
}

impl RateBounds {
    /// The bounds; `None` unless both clocks went forward.
    pub fn between(first: &TimelineSample, later: &TimelineSample) -> Option<Self> {
        let elapsed_ns = later.ns.checked_sub(first.ns).filter(|&ns| ns > 0)?;
        let forward = |from: u64, to: u64| {
            let cycles = to.wrapping_sub(from);
            (cycles.cast_signed() > 0).then_some(cycles)
        };
        let rate = |cycles| {
            let rate = (u128::from(elapsed_ns) << 32) / u128::from(cycles);
            u64::try_from(rate).ok().map(SegmentRate)
        };
        Some(Self {
            low: rate(forward(first.before, later.after)?)?,
            middle: rate(forward(first.middle(), later.middle())?)?,
            high: SegmentRate(rate(forward(first.after, later.before)?)?.0.saturating_add(1)),
        })
    }

    /// Whether a rate is within.
    pub fn contain(&self, rate: SegmentRate) -> bool {
        self.low <= rate && rate <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: TimelineSample = TimelineSample { before: 1_000, ns: 500, after: 1_100 };

    #[test]
    fn the_rate_lies_between_its_bounds() {
        let later = TimelineSample { before: 2_000_900, ns: 1_000_500, after: 2_001_200 };
        let bounds = RateBounds::between(&FIRST, &later).unwrap();
        let half = SegmentRate(1 << 31);
        assert!(bounds.contain(half), "{bounds:?}");
        assert!(bounds.low < bounds.middle && bounds.middle < bounds.high);
        // 1,000,000 ns in at least 1,999,800 and at most 2,000,200 cycles.
        assert_eq!(bounds.low.cycles(1_000_000), 2_000_200);
        assert_eq!(bounds.high.cycles(1_000_000), 1_999_799);
        assert!(!bounds.contain(SegmentRate(half.0 + half.ppm(200))));
    }

    #[test]
    fn a_counter_or_clock_that_did_not_go_forward_has_no_rate() {
        let back = TimelineSample { before: 500, ns: 900, after: 600 };
        assert_eq!(RateBounds::between(&FIRST, &back), None);
        let stood = TimelineSample { before: 5_000, ns: 500, after: 5_100 };
        assert_eq!(RateBounds::between(&FIRST, &stood), None);
        let overlaps = TimelineSample { before: 1_050, ns: 510, after: 1_150 };
        assert_eq!(RateBounds::between(&FIRST, &overlaps), None);
    }
}
