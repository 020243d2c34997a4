//! What a session came to.

use instruments::drift::budget::{Budget, BudgetVerdict};

use super::clock_name::ClockName;
use super::clocks::{NotCompared, TscFrequency};
use super::notes::Note;
use super::pair::PairReport;
use super::reference::ReferenceReport;

/// The figures, and what they show together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ComparisonOutcome {
    /// What the clocks were compared with.
    pub references: Vec<ReferenceReport>,
    /// Each clock against each reference.
    pub pairs: Vec<PairReport>,
    /// The frequency by which tsc's counts were converted; none where it was not
    /// measured in this run.
    pub tsc_frequency: Option<TscFrequency>,
    /// Clocks that could not be measured.
    pub not_measured: Vec<NotCompared>,
    /// Limits that nothing was compared with.
    pub unchecked: Vec<Unchecked>,
    /// Findings in addition to the figures.
    pub notes: Vec<Note>,
    /// What the measurement cannot be relied on for: a reference stepped, a
    /// clock was set back. The figures are of the rest.
    pub disturbances: Vec<Note>,
}

/// A limit that was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unchecked {
    /// Of the offset: no clock that counts from 1970 was compared with a
    /// reference that gives UTC.
    Offset,
    /// Of the frequency: too few comparisons of these clocks.
    Frequency(Vec<ClockName>),
}

impl Unchecked {
    /// The limits of a budget that these pairs leave unchecked.
    pub fn from_pairs(pairs: &[PairReport], budget: Budget) -> Vec<Self> {
        let is_unmeasured =
            |pair: &PairReport| pair.frequency_verdict == Some(BudgetVerdict::NotMeasured);
        // Measured against one reference, a clock has its frequency.
        let mut unmeasured: Vec<ClockName> = Vec::new();
        for pair in pairs.iter().filter(|pair| is_unmeasured(pair)) {
            let mut others = pairs.iter().filter(|other| other.clock == pair.clock);
            let is_measured =
                others.any(|other| other.frequency_verdict.is_some() && !is_unmeasured(other));
            if !is_measured && !unmeasured.contains(&pair.clock) {
                unmeasured.push(pair.clock);
            }
        }
        let frequency = (!unmeasured.is_empty()).then_some(Self::Frequency(unmeasured));
        let is_offset_unchecked = budget.max_offset_ns.is_some()
            && pairs.iter().all(|pair| pair.offset_verdict.is_none());
        frequency.into_iter().chain(is_offset_unchecked.then_some(Self::Offset)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::pair_of;

    fn unchecked(pairs: &[(ClockName, &str, u64)], budget: Budget) -> Vec<Unchecked> {
        let pair = |(clock, reference, count): &(ClockName, &str, u64)| {
            pair_of(*clock, reference, *count, |_| 0).judged(budget).unwrap()
        };
        Unchecked::from_pairs(&pairs.iter().map(pair).collect::<Vec<_>>(), budget)
    }

    #[test]
    fn an_offset_from_no_time_of_day_is_not_checked() {
        let budget = Budget { max_offset_ns: Some(1e6), ..Budget::default() };
        let raw = [(ClockName::Realtime, "raw", 60), (ClockName::Monotonic, "raw", 60)];
        assert_eq!(unchecked(&raw, budget), [Unchecked::Offset]);
        assert_eq!(unchecked(&raw, Budget::default()), []);
        let one_of_two = [(ClockName::Realtime, "ntp 192.0.2.1", 60), raw[0]];
        assert_eq!(unchecked(&one_of_two, budget), []);
    }

    #[test]
    fn a_frequency_of_one_comparison_is_not_checked() {
        let budget = Budget { max_ppm: Some(1.0), ..Budget::default() };
        let once = (ClockName::Realtime, "raw", 1);
        let of_realtime = Unchecked::Frequency(vec![ClockName::Realtime]);
        assert_eq!(unchecked(&[once], budget), [of_realtime]);
        // Against another reference it was measured.
        assert_eq!(unchecked(&[once, (ClockName::Realtime, "ntp 192.0.2.1", 60)], budget), []);
    }
}
