//! What a session came to.

use instruments::drift::Drift;
use instruments::drift::budget::{Budget, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use sources::SourceStatus;

use super::clocks::ClockName;
use super::notes::Note;

/// The figures, and what they show together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// What the clocks were compared with.
    pub references: Vec<ReferenceReport>,
    /// Each clock against each reference.
    pub pairs: Vec<PairReport>,
    /// The frequency by which tsc's counts were converted; none where it was not
    /// measured in this run.
    pub tsc_frequency: Option<TscFrequency>,
    /// Clocks that could not be measured.
    pub not_measured: Vec<NotMeasured>,
    /// Limits that nothing was compared with.
    pub unchecked: Vec<Unchecked>,
    /// Findings in addition to the figures.
    pub notes: Vec<Note>,
    /// What the measurement cannot be relied on for: a reference stepped, a
    /// clock was set back. The figures are of the rest.
    pub disturbances: Vec<Note>,
}

/// A reference, and how it replied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReferenceReport {
    /// Its kind and name; of a PTP hardware clock that was specified to count UTC
    /// or TAI also what is subtracted: `phc /dev/ptp1 tai=37`.
    pub name: String,
    /// Comparisons tried in this run.
    pub tried: u64,
    /// Comparisons made.
    pub made: u64,
    /// Why others failed.
    pub failures: Vec<Failure>,
    /// Whether its time agrees with the majority of references that tell the
    /// time of day; none where there is no majority, or nothing to compare.
    pub agrees: Option<bool>,
    /// Why it was not queried any more.
    pub stopped: Option<String>,
    /// Time between comparisons at the end, s: longer than asked for where it
    /// sent kiss-o'-death RATE.
    pub interval_s: f64,
    /// What it states about itself.
    #[serde(flatten)]
    pub status: SourceStatus,
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// What happened.
    pub what: String,
    /// How often.
    pub times: u64,
}

/// One clock against one reference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PairReport {
    /// The clock.
    pub clock: ClockName,
    /// The reference's name.
    pub reference: String,
    /// The figures.
    pub drift: Drift,
    /// Whether both count from 1970, so that the offset is an error.
    pub offset_is_error: bool,
    /// The frequency against the budget.
    pub frequency_verdict: Option<Verdict>,
    /// The offset against the budget.
    pub offset_verdict: Option<Verdict>,
}

/// The frequency that the TSC is taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TscFrequency {
    /// The frequency, Hz.
    pub hz: u64,
    /// Where it is from.
    pub from: TscSource,
}

/// Where the TSC's frequency is from; the first that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TscSource {
    /// The kernel's log, which not every user may read.
    KernelLog,
    /// CPUID.
    Cpuid,
    /// The host, by the kvm-clock page.
    KvmClockPage,
}

impl TscSource {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelLog => "the kernel's log",
            Self::Cpuid => "CPUID",
            Self::KvmClockPage => "the kvm-clock page",
        }
    }
}

/// A clock that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NotMeasured {
    /// Which.
    pub what: ClockName,
    /// Why.
    pub why: String,
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
    pub fn of(pairs: &[PairReport], budget: Budget) -> Vec<Self> {
        let is_unmeasured =
            |pair: &PairReport| pair.frequency_verdict == Some(Verdict::NotMeasured);
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
    use crate::comparison::testing::pair_of;

    fn unchecked(pairs: &[(ClockName, &str, u64)], budget: Budget) -> Vec<Unchecked> {
        let pair = |(clock, reference, count): &(ClockName, &str, u64)| {
            pair_of(*clock, reference, *count, |_| 0).judged(budget).unwrap()
        };
        Unchecked::of(&pairs.iter().map(pair).collect::<Vec<_>>(), budget)
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
