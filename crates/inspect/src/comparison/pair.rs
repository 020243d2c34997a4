//! One clock against one reference: its comparisons and figures.

use instruments::drift::budget::{Budget, BudgetVerdict};
use instruments::drift::{Drift, Refused, Series};
use schemars::JsonSchema;
use serde::Serialize;

use super::clock_name::ClockName;
use super::reference_names::gives_utc;

/// One clock against one reference.
#[derive(Debug)]
pub struct ClockPairSeries {
    /// The clock.
    pub clock: ClockName,
    /// The reference's name.
    pub reference: String,
    /// The comparisons.
    pub series: Series,
    /// Whether the reference gives UTC.
    pub gives_utc: bool,
    /// Readings that bounded nothing, and what was wrong with the last.
    pub refused: (u64, Option<Refused>),
}

impl ClockPairSeries {
    /// A pair with its comparisons.
    pub fn new(clock: ClockName, reference: &str, series: Series) -> Self {
        let gives_utc = gives_utc(reference);
        Self { clock, reference: reference.to_owned(), series, gives_utc, refused: (0, None) }
    }

    /// Whether both show the time of day.
    pub fn offset_is_error(&self) -> bool {
        self.clock.counts_from_1970() && self.gives_utc
    }

    /// Its figures, and whether they keep to the budget; none without a
    /// comparison.
    pub fn judged(&self, budget: Budget) -> Option<PairReport> {
        let drift = self.series.drift()?;
        let offset_is_error = self.offset_is_error();
        Some(PairReport {
            clock: self.clock,
            reference: self.reference.clone(),
            offset_is_error,
            frequency_verdict: budget.frequency(&drift),
            offset_verdict: budget.offset(&drift).filter(|_| offset_is_error),
            drift,
        })
    }
}

/// The figures of one clock against one reference.
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
    pub frequency_verdict: Option<BudgetVerdict>,
    /// The offset against the budget.
    pub offset_verdict: Option<BudgetVerdict>,
}
