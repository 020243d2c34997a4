//! What the experiments find.

mod check;
mod table;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::{Check, CheckTally, Verdict};
pub use table::{ColumnForm, ResultColumn, ResultRow, ResultTable};

/// What an experiment returns.
pub(crate) type ExperimentResult = (ResultTable, Vec<Check>);

/// All of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The host's TSC, Hz.
    pub host_tsc_hz: u64,
    /// From the machine's start to the guest's first report, ms.
    pub boot_ms: f64,
    /// In the order they ran.
    pub experiments: Vec<ExperimentOutcome>,
    /// Experiments that could not run.
    pub not_run: Vec<NotRun>,
}

/// An experiment that could not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRun {
    /// Its name.
    pub experiment: String,
    /// Why.
    pub why: String,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentOutcome {
    /// Its name.
    pub experiment: String,
    /// What it measured; conformance has checks only.
    pub table: ResultTable,
    /// Its checks.
    pub checks: Vec<Check>,
    /// How long it took, s.
    pub seconds: f64,
}
