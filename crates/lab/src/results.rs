//! What the experiments find.

mod check;
mod contention;
mod echo;
mod figures;
mod report;
mod rows;
mod tally;

pub use check::{Check, Verdict};
pub use contention::Contention;
pub use echo::Echo;
pub use figures::Figure;
pub use report::{Findings, NotRun, Outcome, Report};
pub use rows::{
    Agreement, Backend, Cost, Drift, Monotonic, Moved, MovedClock, MovedTimer, Offset, Restore,
    Stock, Ticks, Update,
};
pub use tally::Tally;

/// What an experiment returns.
pub(crate) type ExperimentResult = (Findings, Vec<Check>);
