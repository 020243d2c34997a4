//! One clock against one reference: its comparisons, and its verdicts.

use instruments::drift::budget::Budget;
use instruments::drift::{Refused, Series};

use super::clocks::ClockName;
use super::reference_names::gives_utc;
use super::report::PairReport;

/// One clock against one reference.
pub(super) struct Pair {
    pub(super) clock: ClockName,
    pub(super) reference: String,
    pub(super) series: Series,
    /// Whether the reference gives UTC.
    pub(super) gives_utc: bool,
    /// Readings that bounded nothing, and what was wrong with the last.
    pub(super) refused: (u64, Option<Refused>),
}

impl Pair {
    /// A pair and what was read of it.
    pub(super) fn of(clock: ClockName, reference: &str, series: Series) -> Self {
        let gives_utc = gives_utc(reference);
        Self { clock, reference: reference.to_owned(), series, gives_utc, refused: (0, None) }
    }

    /// Whether both show the time of day.
    pub(super) fn offset_is_error(&self) -> bool {
        self.clock.counts_from_1970() && self.gives_utc
    }
}

/// Its figures, and whether they keep to the budget; none without a comparison.
pub(super) fn judged(pair: &Pair, budget: Budget) -> Option<PairReport> {
    let drift = pair.series.drift()?;
    let offset_is_error = pair.offset_is_error();
    Some(PairReport {
        clock: pair.clock.name(),
        reference: pair.reference.clone(),
        offset_is_error,
        frequency_verdict: budget.frequency(&drift),
        offset_verdict: budget.offset(&drift).filter(|_| offset_is_error),
        drift,
    })
}
