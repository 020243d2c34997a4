//! The offset of one CPU's counter from another's, by round trips.
//!
//! CPU a reads its counter (`sent`), passes a token to CPU b, which reads its
//! own (`turned`) and passes it back; a reads again (`back`). At b's reading
//! a's counter stood somewhere between `sent` and `back`. The middle is the
//! estimate, half the trip the bound: NTP's argument (RFC 5905, section 8)
//! with nothing assumed about how the trip divides into its two ways. The
//! shortest trip gives the tightest bound.

use crate::measurements::Skew;

/// One round trip between CPUs a and b, in counter units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// a's counter before the token left.
    pub sent: u64,
    /// b's counter while it held the token.
    pub turned: u64,
    /// a's counter when the token was back.
    pub back: u64,
}

/// The offset of b's counter from a's, by round trips.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeasuredClockOffset {
    best: Option<RoundTrip>,
    round_trips: u64,
}

impl MeasuredClockOffset {
    /// No round trip yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more round trip. A trip whose end is before its start bounds
    /// nothing (a's own counter went back) and is left out.
    pub fn observe(&mut self, trip: RoundTrip) {
        let Some(length) = trip.back.checked_sub(trip.sent) else { return };
        self.round_trips += 1;
        if self.best.is_none_or(|best| length < best.back - best.sent) {
            self.best = Some(trip);
        }
    }

    /// b minus a, and the bound of its error, in counter units.
    pub fn estimate(&self) -> Option<(f64, f64)> {
        let best = self.best?;
        let half = (best.back - best.sent) as f64 / 2.0;
        // Differences first: the counters may be far beyond 2^53.
        let since_sent = i128::from(best.turned) - i128::from(best.sent);
        Some((since_sent as f64 - half, half))
    }

    /// The result for CPUs `cpu_a` and `cpu_b`, one unit of whose counters is
    /// `ns_per_unit` long.
    pub fn skew(&self, cpu_a: u32, cpu_b: u32, ns_per_unit: f64) -> Option<Skew> {
        let (offset, bound) = self.estimate()?;
        Some(Skew {
            cpu_a,
            cpu_b,
            offset_ns: offset * ns_per_unit,
            bound_ns: bound * ns_per_unit,
            round_trips: self.round_trips,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_trip_no_estimate() {
        assert_eq!(MeasuredClockOffset::new().estimate(), None);
        let mut offset = MeasuredClockOffset::new();
        offset.observe(RoundTrip { sent: 10, turned: 11, back: 9 });
        assert_eq!(offset.estimate(), None);
    }

    proptest! {
        /// Two counters of known offset, and trips that divide unevenly.
        #[test]
        fn the_truth_is_within_the_bound(
            truth in -1_000_000i64..1_000_000,
            start in (1u64 << 40)..(1 << 62),
            trips in prop::collection::vec((1u64..5000, 1u64..5000), 1..60),
        ) {
            let mut offset = MeasuredClockOffset::new();
            let mut now = start;
            for (there, return_way) in &trips {
                let trip = RoundTrip {
                    sent: now,
                    turned: (now + there).wrapping_add_signed(truth),
                    back: now + there + return_way,
                };
                offset.observe(trip);
                now = trip.back + 100;
            }
            let (estimate, bound) = offset.estimate().unwrap();
            prop_assert!((estimate - truth as f64).abs() <= bound, "{estimate} ± {bound}: {truth}");
            let shortest = trips.iter().map(|(there, return_way)| there + return_way).min().unwrap();
            prop_assert_eq!(bound, shortest as f64 / 2.0);
        }
    }
}
