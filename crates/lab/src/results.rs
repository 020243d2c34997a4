//! What the experiments find.

mod check;
mod contention;
mod echo;
mod report;
mod rows;
mod tally;

pub use check::{Check, Verdict};
pub use contention::Contention;
pub use echo::Echo;
pub use report::{ExperimentOutcome, Findings, NotRun, Report};
pub use rows::{
    Agreement, BackendName, CostRow, DriftRow, Monotonic, MovedClock, MovedRow, MovedTimer,
    OffsetRow, Restore, Stock, TicksRow, Update,
};
pub use tally::CheckTally;

/// What an experiment returns.
pub(crate) type ExperimentResult = (Findings, Vec<Check>);
