//! What to add to CLOCK_MONOTONIC to have CLOCK_REALTIME.

/// CLOCK_REALTIME showed `realtime_ns` when CLOCK_MONOTONIC was between these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeSample {
    /// CLOCK_MONOTONIC before, ns.
    pub before_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: i64,
    /// CLOCK_MONOTONIC after, ns.
    pub after_ns: u64,
}

/// The difference of the two clocks.
///
/// Both are the kernel's one clock plus a whole number of nanoseconds
/// (`wall_to_monotonic`, kernel/time/timekeeping.c), so it is constant until
/// the time is set or a leap second passes, and each sample can only
/// narrow it. A sample that contradicts the ones before is a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RealtimeOffset {
    bounds: Option<(i64, i64)>,
    /// Times that the difference changed.
    pub steps: u64,
}

impl RealtimeOffset {
    /// No sample yet.
    pub const fn new() -> Self {
        Self { bounds: None, steps: 0 }
    }

    /// Takes a sample into account.
    pub fn update(&mut self, sample: &RealtimeSample) {
        let minus =
            |ns: u64| sample.realtime_ns.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX));
        let (low, high) = (minus(sample.after_ns), minus(sample.before_ns));
        self.bounds = Some(match self.bounds {
            Some((known_low, known_high)) if low <= known_high && known_low <= high => {
                (low.max(known_low), high.min(known_high))
            }
            Some(_) => {
                self.steps += 1;
                (low, high)
            }
            None => (low, high),
        });
    }

    /// The difference, and how far it may be off, ns.
    pub fn best_ns(&self) -> (i64, u64) {
        let (low, high) = self.bounds.unwrap_or_default();
        let width = high.abs_diff(low);
        (low.saturating_add_unsigned(width / 2), width.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(before_ns: u64, realtime_ns: i64, width_ns: u64) -> RealtimeSample {
        RealtimeSample { before_ns, realtime_ns, after_ns: before_ns + width_ns }
    }

    #[test]
    fn samples_narrow_it_until_the_time_is_set() {
        let mut offset = RealtimeOffset::new();
        offset.update(&sample(1_000, 51_020, 60));
        assert_eq!(offset.best_ns(), (49_990, 30));
        offset.update(&sample(2_000, 52_050, 60));
        assert_eq!(offset.best_ns(), (50_005, 15));
        offset.update(&sample(3_000, 43_050, 60));
        assert_eq!((offset.best_ns(), offset.steps), ((40_020, 30), 1));
    }

    #[test]
    fn a_time_before_1970_is_a_time() {
        let mut offset = RealtimeOffset::new();
        offset.update(&sample(5_000, -1_000_000, 10));
        assert_eq!(offset.best_ns(), (-1_005_005, 5));
    }
}
