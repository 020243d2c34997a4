//! The report of `parachron latency`: the document of `--format json`.

use doctor::finding::Finding;
use facts::Facts;
use instruments::latency::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::commands::bench::report::Machine;

/// All that `parachron latency` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LatencyReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which machine.
    pub(crate) machine: Machine,
    /// What was measured.
    pub(crate) latency: Latency,
    /// The causes, worst first.
    pub(crate) findings: Vec<Finding>,
}

impl LatencyReport {
    /// Of a measurement on this machine.
    pub(crate) fn new(latency: Latency, facts: &Facts) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine::this(),
            findings: doctor::lateness::findings(&latency, facts),
            latency,
        }
    }
}
