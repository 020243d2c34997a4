//! What a run came to, as `--format json` prints it.

use facts::steering::ChronyTracking;
use instruments::drift::Drift;
use instruments::drift::budget::{Budget, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::verdicts::NotHeld;

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
    /// By what clock tsc's counts were made time; none where it was not measured
    /// in this run.
    pub(super) tsc_frequency: Option<TscFrequency>,
    /// Clocks that could not be measured.
    pub(super) not_measured: Vec<NotMeasured>,
    /// What was asked of the clocks.
    pub(super) budget: Budget,
    /// What of that nothing was held to, and why.
    pub(super) not_held: Vec<NotHeld>,
    /// What was found beside the figures.
    pub(super) notes: Vec<String>,
    /// What the measurement cannot be relied on for: a reference stepped, a
    /// clock was set back. The figures are of the rest.
    pub(super) disturbed: Vec<String>,
}

/// A reference, and how it answered.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ReferenceReport {
    /// Its kind and name; of a PTP hardware clock that was said to count UTC or
    /// TAI also what is taken off: `phc /dev/ptp1 tai=37`.
    pub(super) name: String,
    /// Comparisons tried in this run.
    pub(super) asked: u64,
    /// Comparisons made.
    pub(super) answered: u64,
    /// Why others were not.
    pub(super) failures: Vec<Failure>,
    /// Whether its time agrees with the majority of references that tell the
    /// time of day; none where there is no majority, or nothing to compare.
    pub(super) agrees: Option<bool>,
    /// Why it was asked no more.
    pub(super) stopped: Option<String>,
    /// Time between comparisons at the end, s: longer than asked for where it
    /// sent kiss-o'-death RATE.
    pub(super) interval_s: f64,
    /// An NTP server's stratum.
    pub(super) stratum: Option<u8>,
    /// How far off an NTP server may be by its own word, ns.
    pub(super) root_distance_ns: Option<u64>,
    /// An NTP server's leap second warning: 1 insert, 2 delete, 0 none.
    pub(super) leap: Option<u8>,
    /// How a PTP hardware clock is compared: precise or extended.
    pub(super) compared: Option<String>,
    /// What a PTP hardware clock's driver calls it: `KVM virtual PTP` is the
    /// host's clock by KVM clock pairing.
    pub(super) driver: Option<String>,
    /// How far a PTP hardware clock is ahead of UTC, s, which is taken off: 0
    /// for one that counts UTC; null where nothing tells.
    pub(super) ahead_of_utc_s: Option<i32>,
    /// chronyd's own figures, as of the last comparison.
    pub(super) chrony: Option<ChronyTracking>,
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
    /// Who says so.
    pub(super) from: TscSource,
}

/// Who says which frequency the TSC has; the first that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TscSource {
    /// The kernel's log, which not everybody may read.
    KernelLog,
    /// CPUID.
    Cpuid,
    /// The host, by the kvm-clock page.
    KvmClockPage,
}

impl TscSource {
    /// In words.
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
    pub(super) fn of_pairs(pairs: &[super::session::Pair]) -> Self {
        let budget = Budget::default();
        let judged = pairs.iter().filter_map(|pair| super::session::judged(pair, budget));
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
