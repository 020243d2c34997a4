//! What a run came to, as `--format json` prints it.

use std::time::Duration;

use inspect::comparison::{
    ComparisonOutcome, NotCompared, PairReport, ReferenceReport, TscFrequency, Unchecked,
};
use instruments::drift::{Budget, BudgetVerdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::notes::sentence;

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
    pub(super) not_measured: Vec<NotCompared>,
    /// The limits to keep to.
    pub(super) budget: Budget,
    /// Limits that were not checked, and why.
    pub(super) not_held: Vec<NotHeld>,
    /// Findings in addition to the figures.
    pub(super) notes: Vec<String>,
    /// Why the measurement is unreliable: a reference stepped, or a clock was set back.
    /// The figures cover the other comparisons.
    pub(super) disturbed: Vec<String>,
}

/// A limit that was not checked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NotHeld {
    /// Which, and why.
    pub(super) why: String,
    /// What to do about it.
    pub(super) remedy: String,
}

impl NotHeld {
    /// Of a limit that was not checked.
    pub(super) fn from_unchecked(unchecked: &Unchecked) -> Self {
        match unchecked {
            Unchecked::Frequency(clocks) => {
                let clocks: Vec<&str> = clocks.iter().map(|clock| clock.name()).collect();
                Self {
                    why: format!(
                        "--max-ppm was not checked for {}: too few comparisons for a frequency",
                        clocks.join(", ")
                    ),
                    remedy: "use a longer --duration or a shorter --interval".into(),
                }
            }
            // No offset is an error: clocks that count from boot are off by
            // anything, and so are references that do not give the time of day.
            _ => Self {
                why: "--max-offset was not checked: no clock that counts from 1970 (realtime, \
                      rtc, phc) was compared with a reference that gives UTC"
                    .into(),
                remedy: "name a reference that gives UTC (--ntp, --vmclock, --chrony, or --phc \
                         with its time scale), and a clock of these with --clock"
                    .into(),
            },
        }
    }
}

impl DriftReport {
    /// Of an outcome, with findings that are not in it.
    pub(super) fn from_outcome(
        outcome: ComparisonOutcome,
        budget: Budget,
        elapsed: Duration,
        mut notes: Vec<String>,
    ) -> Self {
        notes.extend(outcome.notes.iter().map(sentence));
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration_s: elapsed.as_secs_f64(),
            references: outcome.references,
            pairs: outcome.pairs,
            tsc_frequency: outcome.tsc_frequency,
            not_measured: outcome.not_measured,
            budget,
            not_held: outcome.unchecked.iter().map(NotHeld::from_unchecked).collect(),
            notes,
            disturbed: outcome.disturbances.iter().map(sentence).collect(),
        }
    }

    /// Whether something that was measured is outside the budget.
    pub(super) fn is_outside(&self) -> bool {
        let verdicts = |pair: &PairReport| [pair.frequency_verdict, pair.offset_verdict];
        self.pairs.iter().flat_map(verdicts).flatten().any(BudgetVerdict::is_outside)
    }
}

#[cfg(test)]
mod tests;
