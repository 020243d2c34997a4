//! How far apart samples are.

/// A sample that comes this much later than those before it is late, ns: a bit
/// less than what is reported as late (`disruptions`, a second).
const LATE_NS: u64 = 900_000_000;

/// The last two samples.
#[derive(Debug, Default)]
pub(super) struct SamplingPace {
    last_ns: Option<u64>,
    gap_ns: Option<u64>,
}

impl SamplingPace {
    /// Whether a sample at `now_ns` came much later after the last one than that
    /// one after its own.
    pub(super) fn is_late(&mut self, now_ns: u64) -> bool {
        let gap_ns = self.last_ns.replace(now_ns).map(|last| now_ns.saturating_sub(last));
        let before_ns = std::mem::replace(&mut self.gap_ns, gap_ns);
        gap_ns.zip(before_ns).is_some_and(|(now, before)| now > before.saturating_add(LATE_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_late_by_the_pace_before_it() {
        let mut pace = SamplingPace::default();
        let late: Vec<bool> = [0, 250, 500, 1600, 1850, 6850, 11_850, 12_100, 13_300]
            .map(|ms| pace.is_late(ms * 1_000_000))
            .into();
        assert_eq!(late, [false, false, false, false, false, true, false, false, true]);
        let mut pace = SamplingPace::default();
        let _ = (pace.is_late(0), pace.is_late(250_000_000));
        assert!(pace.is_late(1_500_000_001), "by more than 0.9 s");
    }
}
