//! How an offset ages, and when it is worth correcting.

use pvclock::units::Interval;
use pvclock::units::OffsetBound;

/// How fast the offset may change by itself: a slew of 500 ppm, and a clock as
/// bad as the kernel can steer, another 500 ppm.
const WANDER_PPM: u64 = 1000;

/// What the keeper checks of an offset.
pub(crate) trait Offset {
    /// Its bound at `now_ns`.
    fn bound_at(&self, now_ns: u64) -> u64;

    /// Where the truth is at `now_ns`.
    fn interval_at(&self, now_ns: u64) -> Interval<f64>;

    /// Whether this and another of any age can both be right at `now_ns`.
    fn overlaps(&self, other: &Self, now_ns: u64) -> bool;

    /// Whether this and an `earlier` one can both be right.
    fn agrees_with(&self, earlier: &Self) -> bool;

    /// Whether there is nothing to correct. By less than twice the bound a
    /// correction may leave the clock worse than before.
    fn is_within(&self, tolerance_ns: u64) -> bool;
}

impl Offset for OffsetBound {
    fn bound_at(&self, now_ns: u64) -> u64 {
        let wander = now_ns.saturating_sub(self.at_monotonic_ns) / (1_000_000 / WANDER_PPM);
        self.bound_ns.saturating_add(wander)
    }

    fn interval_at(&self, now_ns: u64) -> Interval<f64> {
        let (offset, bound) = (self.offset_ns as f64, self.bound_at(now_ns) as f64);
        Interval { low: offset - bound, high: offset + bound }
    }

    fn overlaps(&self, other: &Self, now_ns: u64) -> bool {
        !self.interval_at(now_ns).overlap(other.interval_at(now_ns)).is_empty()
    }

    fn agrees_with(&self, earlier: &Self) -> bool {
        let difference = self.offset_ns.abs_diff(earlier.offset_ns);
        difference <= self.bound_ns.saturating_add(earlier.bound_at(self.at_monotonic_ns))
    }

    fn is_within(&self, tolerance_ns: u64) -> bool {
        let size_ns = self.offset_ns.unsigned_abs();
        size_ns <= tolerance_ns || size_ns / 2 < self.bound_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(offset_ns: i64, bound_ns: u64, at_monotonic_ns: u64) -> OffsetBound {
        OffsetBound { offset_ns, bound_ns, at_monotonic_ns }
    }

    #[test]
    fn offsets_agree_within_their_bounds_and_the_time_between() {
        let first = offset(0, 100, 0);
        assert!(offset(200, 100, 0).agrees_with(&first));
        assert!(!offset(201, 100, 0).agrees_with(&first));
        // A second later either may have wandered by a millisecond.
        assert!(offset(1_000_200, 100, 1_000_000_000).agrees_with(&first));
        assert!(!offset(1_000_201, 100, 1_000_000_000).agrees_with(&first));
        assert!(!offset(i64::MAX, 0, 0).agrees_with(&offset(i64::MIN, 0, 0)));
    }

    #[test]
    fn an_offset_within_twice_its_bound_is_ignored() {
        assert!(offset(-199, 100, 0).is_within(0));
        assert!(!offset(-200, 100, 0).is_within(0));
        assert!(offset(-100, 0, 0).is_within(100));
        assert!(!offset(-101, 50, 0).is_within(100));
        assert!(!offset(i64::MIN, 0, 0).is_within(100));
    }
}
