//! What the experiments find.

mod check;
mod report;
mod table;
mod tally;

pub use check::{Check, Verdict};
pub use report::{ExperimentOutcome, NotRun, Report};
pub use table::{ColumnForm, ResultColumn, ResultRow, ResultTable};
pub use tally::CheckTally;

/// What an experiment returns.
pub(crate) type ExperimentResult = (ResultTable, Vec<Check>);
