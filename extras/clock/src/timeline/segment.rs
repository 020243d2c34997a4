//! The linear segments that a clock's time consists of.
//!
//! Time is a piecewise linear function of the TSC. Each segment is created
//! before any reader needs it, begins where the one before it ends, and never
//! changes: so all threads agree on the time at each TSC, whichever
//! publication they read, and however late.

/// A counter's rate: ns a cycle, in units of 2⁻³².
///
/// The unit is 0.6 ppb of a 2.4 GHz counter's rate: 2 ns over the longest
/// segment there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentRate(pub u64);

impl SegmentRate {
    /// Nanoseconds that `cycles` take, rounded down.
    pub const fn ns(self, cycles: u64) -> u64 {
        ((self.0 as u128 * cycles as u128) >> 32) as u64
    }

    /// Cycles that fit into `ns`; 0 for a rate of 0.
    pub const fn cycles(self, ns: u64) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        let cycles = ((ns as u128) << 32) / self.0 as u128;
        if cycles > u64::MAX as u128 { u64::MAX } else { cycles as u64 }
    }

    /// The counter's frequency, Hz; 0 for a rate of 0.
    pub const fn hz(self) -> u64 {
        self.cycles(1_000_000_000)
    }

    /// A part of the rate, in millionths.
    pub const fn ppm(self, ppm: u32) -> u64 {
        (self.0 as u128 * ppm as u128 / 1_000_000) as u64
    }
}

/// A linear piece of time: from `start_tsc` on, for `cycles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The TSC at its start.
    pub start_tsc: u64,
    /// How long it is. `cycles · rate` is less than 2⁶⁴, so that a read
    /// needs one multiplication of 64 bits.
    pub cycles: u64,
    /// The time at its start, ns.
    pub base_ns: u64,
    /// Its slope.
    pub rate: SegmentRate,
}

/// What a product of 64 bits holds, less a nanosecond: 4.29 s.
pub const LONGEST_NS: u64 = (1 << 32) - 2;

impl Segment {
    /// An empty segment: no TSC is on it, and `base_ns` is its end.
    pub const fn none(base_ns: u64) -> Self {
        Self { start_tsc: 0, cycles: 0, base_ns, rate: SegmentRate(0) }
    }

    /// A segment about `ns` long, and at most [`LONGEST_NS`].
    pub fn new(start_tsc: u64, base_ns: u64, rate: SegmentRate, ns: u64) -> Self {
        Self { start_tsc, cycles: rate.cycles(ns.min(LONGEST_NS)), base_ns, rate }
    }

    /// Whether `tsc` lies on it. Before its start the difference wraps, and
    /// is longer than any segment.
    pub const fn contains(&self, tsc: u64) -> bool {
        tsc.wrapping_sub(self.start_tsc) < self.cycles
    }

    /// The time at a TSC that lies on it.
    pub const fn time_ns(&self, tsc: u64) -> u64 {
        self.base_ns + self.rate.ns(tsc.wrapping_sub(self.start_tsc))
    }

    /// The TSC at which it has ended.
    pub const fn end_tsc(&self) -> u64 {
        self.start_tsc.wrapping_add(self.cycles)
    }

    /// A time that no TSC on it exceeds, and less than a nanosecond above
    /// its end: where the next one begins.
    pub const fn end_ns(&self) -> u64 {
        let units = self.rate.0 as u128 * self.cycles as u128;
        self.base_ns + units.div_ceil(1 << 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_nanoseconds_a_cycle() {
        let rate = SegmentRate((1 << 32) * 10 / 25);
        assert_eq!(rate.ns(2_500_000_000), 999_999_999);
        assert_eq!(rate.cycles(1_000_000_000), 2_500_000_000);
        assert_eq!(rate.hz(), 2_500_000_000);
        assert_eq!(SegmentRate(0).hz(), 0);
    }

    #[test]
    fn nothing_is_on_no_segment() {
        let none = Segment::none(77);
        assert!(!none.contains(0) && !none.contains(u64::MAX));
        assert_eq!(none.end_ns(), 77);
    }

    proptest! {
        #[test]
        fn the_next_segment_never_begins_below_any_time_of_this_one(
            start in any::<u64>(),
            base in 0..u64::MAX / 2,
            rate in 1u64 << 28..1 << 36,
            length in 1_000u64..10_000_000_000,
            part in 0.0..1.0,
        ) {
            let segment = Segment::new(start, base, SegmentRate(rate), length);
            let product = u128::from(segment.cycles) * u128::from(rate);
            prop_assert!(product < 1 << 64);
            let within = (segment.cycles as f64 * part) as u64;
            let tsc = start.wrapping_add(within.min(segment.cycles - 1));
            prop_assert!(segment.contains(tsc) && !segment.contains(segment.end_tsc()));
            prop_assert!(!segment.contains(start.wrapping_sub(1)));
            prop_assert!(segment.time_ns(tsc) <= segment.end_ns());
            let exact = base + (product >> 32) as u64;
            prop_assert!(segment.end_ns() - exact <= 1);
        }
    }
}
