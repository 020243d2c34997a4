//! How far disruptions explain that the clock is off.
//!
//! A pause of 60.0 s that this machine's own clocks show leaves the time of day
//! 60.0 s behind. A source that reports just that is believed alone: it would
//! have to lie by the length of the pause.

use disruptions::Disruption;
use pvclock::units::Interval;
use pvclock::units::OffsetBound;

use crate::offset::Offset;

/// By how much the clock is behind since it was last right, as far as the
/// disruptions since then show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DisruptionBudget {
    /// When it was last known to be right, CLOCK_MONOTONIC, ns: never, or another process
    /// has set it since.
    right_ns: Option<u64>,
    /// When it was moved since, the same.
    moved_ns: Option<u64>,
    behind: Behind,
}

#[derive(Debug, Clone, Copy, Default)]
enum Behind {
    /// There was no disruption.
    #[default]
    Nothing,
    /// It is behind by this, ns.
    By(Interval<f64>),
    /// There was one of unknown size.
    Unknown,
}

impl DisruptionBudget {
    /// The clock is right, and was `known` to be last.
    pub(super) fn since(known: Option<OffsetBound>) -> Self {
        let right_ns = known.map(|offset| offset.at_monotonic_ns);
        Self { right_ns, moved_ns: None, behind: Behind::Nothing }
    }

    /// Another disruption happened. It may be known some samples later, and corrected by
    /// then: of a clock that was right since it left nothing, and of one that was moved
    /// since, what it left is unknown. Else who lies could have it corrected twice. Unknown
    /// is as well what is not proven of its length.
    pub(super) fn add(&mut self, disruption: &Disruption, is_proven: bool) {
        let is_before =
            |since: Option<u64>| since.is_some_and(|ns| disruption.at_monotonic_ns < ns);
        if is_before(self.right_ns) {
            return;
        }
        if is_before(self.moved_ns) {
            self.behind = Behind::Unknown;
            return;
        }
        let before = match self.behind {
            Behind::Nothing => Interval { low: 0.0, high: 0.0 },
            Behind::By(before) => before,
            Behind::Unknown => return,
        };
        self.behind = disruption.behind.filter(|_| is_proven).map_or(Behind::Unknown, |size| {
            let (low, high) = (size.ns - size.bound_ns, size.ns + size.bound_ns);
            Behind::By(Interval { low: before.low + low, high: before.high + high })
        });
    }

    /// The clock was moved by this.
    pub(super) fn step(&mut self, by_ns: i64, now_ns: u64) {
        self.moved_ns = Some(now_ns);
        if let Behind::By(behind) = &mut self.behind {
            let by = by_ns as f64;
            *behind = Interval { low: behind.low - by, high: behind.high - by };
        }
    }

    /// How long ago the clock was known to be right, ns.
    pub(super) fn age_ns(&self, now_ns: u64) -> Option<u64> {
        self.right_ns.map(|right_ns| now_ns.saturating_sub(right_ns))
    }

    /// Whether it is why the clock is off by `offset`: both agree, and it is
    /// known to within half its size, so that nothing that agrees with it makes
    /// the clock worse. `left_ns` may have been left uncorrected before, and the clock have
    /// run off by `ran_ns` since: of one that was ahead by 3 s before a pause of 5 s, 5 s
    /// more make 3 s of 2.
    pub(super) fn covers(
        &self,
        offset: &OffsetBound,
        left_ns: u64,
        ran_ns: u64,
        now_ns: u64,
    ) -> bool {
        let Behind::By(behind) = self.behind else { return false };
        let (left, ran) = (left_ns as f64, ran_ns as f64);
        let (low, high) = (behind.low - left, behind.high + left);
        let shown = offset.interval_at(now_ns);
        let smallest = if low > 0.0 { low } else { -high };
        shown.low <= high && low <= shown.high && high - low + 2.0 * ran <= smallest
    }

    /// Of what the disruptions left behind, the nearest to this.
    pub(super) fn nearest_ns(&self, by_ns: i64) -> i64 {
        let Behind::By(behind) = self.behind else { return by_ns };
        (by_ns as f64).max(behind.low).min(behind.high) as i64
    }

    /// How much of a move by this is beyond what the disruptions left behind, by what this
    /// machine's clocks alone say of them: of 7.4 s after a pause of 5 s, 2.4 s.
    pub(super) fn beyond_ns(&self, by_ns: i64) -> u64 {
        let Behind::By(behind) = self.behind else { return by_ns.unsigned_abs() };
        let by = by_ns as f64;
        (behind.low - by).max(by - behind.high).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disruptions::{Kind, Size};

    fn pause(ns: f64, bound_ns: f64) -> Disruption {
        let behind = Some(Size { ns, bound_ns });
        Disruption {
            kinds: Kind::Pause.into(),
            at_monotonic_ns: 0,
            size: behind,
            behind,
            evidence: Vec::new(),
        }
    }

    fn shown(offset_ns: i64) -> OffsetBound {
        OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns: 0 }
    }

    /// Of a clock that was right at 0.
    fn budget() -> DisruptionBudget {
        DisruptionBudget::since(Some(shown(0)))
    }

    #[test]
    fn a_pause_accounts_for_its_own_length() {
        let mut budget = budget();
        let accounts = |it: &DisruptionBudget, by_ns| it.covers(&shown(by_ns), 1000, 0, 0);
        assert!(!accounts(&budget, 0));
        budget.add(&pause(60e9, 1e6), true);
        assert!(accounts(&budget, 60_000_000_000));
        assert!(accounts(&budget, 59_999_000_000));
        assert!(!accounts(&budget, 59_990_000_000));
        assert!(!accounts(&budget, -60_000_000_000));
        budget.add(&pause(2e9, 1e6), true);
        assert!(accounts(&budget, 62_000_000_000));
        budget.step(62_000_000_000, 1);
        assert!(!accounts(&budget, 62_000_000_000));
    }

    /// A verdict comes some samples after what it is about.
    #[test]
    fn one_that_is_corrected_as_it_becomes_known_accounts_for_nothing_more() {
        let at = |at_monotonic_ns| Disruption { at_monotonic_ns, ..pause(60e9, 1e6) };
        let accounts = |it: &DisruptionBudget| it.covers(&shown(60_000_000_000), 1000, 0, 9);
        let mut moved = budget();
        moved.step(60_000_000_000, 5);
        moved.add(&at(4), true);
        assert!(!accounts(&moved), "stepped since");
        let mut right =
            DisruptionBudget::since(Some(OffsetBound { at_monotonic_ns: 5, ..shown(0) }));
        right.add(&at(4), true);
        assert!(!accounts(&right), "right since");
        right.add(&at(6), true);
        assert!(accounts(&right), "another");
    }

    #[test]
    fn it_accounts_for_nothing_of_a_clock_that_may_have_been_as_far_off() {
        let mut budget = budget();
        budget.add(&pause(5e9, 0.0), true);
        let accounts = |ran_ns| budget.covers(&shown(5_000_000_000), 1000, ran_ns, 0);
        assert!(accounts(2_499_000_000));
        assert!(!accounts(2_500_000_000));
        assert_eq!((budget.age_ns(7), DisruptionBudget::default().age_ns(7)), (Some(7), None));
    }

    #[test]
    fn what_is_beyond_a_pause_is_beyond_either_end_of_it() {
        let mut budget = budget();
        assert_eq!(budget.beyond_ns(-7), 7);
        budget.add(&pause(5e9, 1e6), true);
        let beyond = [5_000_000_000, 5_001_000_000, 7_400_000_000, 4_000_000_000, -1_000_000_000]
            .map(|by_ns| budget.beyond_ns(by_ns));
        assert_eq!(beyond, [0, 0, 2_399_000_000, 999_000_000, 5_999_000_000]);
    }

    #[test]
    fn what_is_known_of_a_pause_is_nearer_than_a_seconds_reading() {
        let mut budget = budget();
        assert_eq!(budget.nearest_ns(7), 7);
        budget.add(&pause(5e9, 1e6), true);
        let nearest = [6_100_000_000, 5_000_500_000, 4_200_000_000].map(|by| budget.nearest_ns(by));
        assert_eq!(nearest, [5_001_000_000, 5_000_500_000, 4_999_000_000]);
    }

    #[test]
    fn one_of_unknown_or_vague_size_accounts_for_nothing() {
        let mut vague = budget();
        vague.add(&pause(2e9, 1.5e9), true);
        assert!(!vague.covers(&shown(2_000_000_000), 0, 0, 0));
        let mut unknown = budget();
        unknown.add(&Disruption { behind: None, ..pause(2e9, 0.0) }, true);
        unknown.add(&pause(2e9, 0.0), true);
        assert!(!unknown.covers(&shown(2_000_000_000), 0, 0, 0));
        let mut unproven = budget();
        unproven.add(&pause(2e9, 0.0), false);
        assert!(!unproven.covers(&shown(2_000_000_000), 0, 0, 0));
    }
}
