//! The document of `--format json`.

use lab::results::Report;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::bench::report::MachineIdentity;

/// The report of `parachron lab`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which host.
    pub(crate) machine: MachineIdentity,
    /// The experiments.
    #[serde(flatten)]
    pub(crate) lab: Report,
}
