//! What a run came to, as `--format json` prints it.

use instruments::drift::Drift;
use instruments::drift::budget::{Budget, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use sources::SourceStatus;

/// The whole.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DriftReport {
    /// The program's version.
    pub(super) version: String,
    /// How long was measured in this run, s.
    pub(super) duration_s: f64,
    /// What the clocks were compared with.
    pub(super) references: Vec<ReferenceReport>,
    /// Each clock against each reference.
    pub(super) pairs: Vec<PairReport>,
    /// The frequency by which tsc's counts were converted; none where it was not
    /// measured in this run.
    pub(super) tsc_frequency: Option<TscFrequency>,
    /// Clocks that could not be measured.
    pub(super) not_measured: Vec<NotMeasured>,
    /// The limits to keep to.
    pub(super) budget: Budget,
    /// Limits that nothing was compared with, and why.
    pub(super) not_held: Vec<NotHeld>,
    /// Findings in addition to the figures.
    pub(super) notes: Vec<String>,
    /// What the measurement cannot be relied on for: a reference stepped, a
    /// clock was set back. The figures are of the rest.
    pub(super) disturbed: Vec<String>,
}

/// A reference, and how it replied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ReferenceReport {
    /// Its kind and name; of a PTP hardware clock that was specified to count UTC
    /// or TAI also what is subtracted: `phc /dev/ptp1 tai=37`.
    pub(super) name: String,
    /// Comparisons tried in this run.
    pub(super) tried: u64,
    /// Comparisons made.
    pub(super) made: u64,
    /// Why others failed.
    pub(super) failures: Vec<Failure>,
    /// Whether its time agrees with the majority of references that tell the
    /// time of day; none where there is no majority, or nothing to compare.
    pub(super) agrees: Option<bool>,
    /// Why it was not queried any more.
    pub(super) stopped: Option<String>,
    /// Time between comparisons at the end, s: longer than asked for where it
    /// sent kiss-o'-death RATE.
    pub(super) interval_s: f64,
    /// What it states about itself.
    #[serde(flatten)]
    pub(super) status: SourceStatus,
}

/// A limit that was not checked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NotHeld {
    /// Which, and why.
    pub(super) why: String,
    /// What to do about it.
    pub(super) remedy: String,
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// What happened.
    pub(super) what: String,
    /// How often.
    pub(super) times: u64,
}

/// One clock against one reference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PairReport {
    /// The clock.
    pub(super) clock: String,
    /// The reference's name.
    pub(super) reference: String,
    /// The figures.
    pub(super) drift: Drift,
    /// Whether both count from 1970, so that the offset is an error.
    pub(super) offset_is_error: bool,
    /// The frequency against the budget.
    pub(super) frequency_verdict: Option<Verdict>,
    /// The offset against the budget.
    pub(super) offset_verdict: Option<Verdict>,
}

/// The frequency that the TSC is taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TscFrequency {
    /// The frequency, Hz.
    pub(super) hz: u64,
    /// Where it is from.
    pub(super) from: TscSource,
}

/// Where the TSC's frequency is from; the first that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TscSource {
    /// The kernel's log, which not every user may read.
    KernelLog,
    /// CPUID.
    Cpuid,
    /// The host, by the kvm-clock page.
    KvmClockPage,
}

impl TscSource {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KernelLog => "the kernel's log",
            Self::Cpuid => "CPUID",
            Self::KvmClockPage => "the kvm-clock page",
        }
    }
}

/// A clock that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NotMeasured {
    /// Which.
    pub(super) what: String,
    /// Why.
    pub(super) why: String,
}

impl DriftReport {
    /// Whether something that was measured is outside the budget.
    pub(super) fn is_outside(&self) -> bool {
        let verdicts = |pair: &PairReport| [pair.frequency_verdict, pair.offset_verdict];
        self.pairs.iter().flat_map(verdicts).flatten().any(Verdict::is_outside)
    }
}

#[cfg(test)]
impl DriftReport {
    /// Of pairs alone.
    pub(super) fn of_pairs(pairs: &[super::pair::Pair]) -> Self {
        let budget = Budget::default();
        let judged = pairs.iter().filter_map(|pair| super::pair::judged(pair, budget));
        Self {
            version: "0.0.0".into(),
            duration_s: 100.0,
            references: Vec::new(),
            pairs: judged.collect(),
            not_measured: Vec::new(),
            budget,
            tsc_frequency: None,
            not_held: Vec::new(),
            notes: Vec::new(),
            disturbed: Vec::new(),
        }
    }
}
