//! A report and its experiments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::contention::Contention;
use super::echo::Echo;
use super::rows::{
    Agreement, CostRow, DriftRow, Monotonic, OffsetRow, Restore, Stock, TicksRow, Update,
};

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
    /// What was found.
    pub findings: Findings,
    /// Its checks.
    pub checks: Vec<Check>,
    /// How long it took, s.
    pub seconds: f64,
}

/// Each experiment's own table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "experiment", content = "rows")]
pub enum Findings {
    /// Guest time against host time.
    Drift(Vec<DriftRow>),
    /// What each event does to the page.
    Updates(Vec<Update>),
    /// The cost of a reading inside the guest.
    Cost(Vec<CostRow>),
    /// Whether time goes backward between vCPUs.
    Monotonic(Vec<Monotonic>),
    /// The guest's time against the host's.
    Offset(Vec<OffsetRow>),
    /// What a guest sees of being saved and restored.
    Restore(Vec<Restore>),
    /// What a guest that counts ticks loses.
    Ticks(Vec<TicksRow>),
    /// What a lock does when its vCPUs outnumber the CPUs.
    Locks(Vec<Contention>),
    /// What a packet costs, by how guest and host wait.
    Network(Vec<Echo>),
    /// The kernel's page against ours.
    Agreement(Vec<Agreement>),
    /// What a stock Linux kernel makes of a provider.
    Linux(Vec<Stock>),
    /// What KVM's own tests check of a clock: it has checks only.
    Conformance,
}

impl ExperimentOutcome {
    /// The experiment's name.
    pub const fn name(&self) -> &'static str {
        match &self.findings {
            Findings::Drift(_) => "drift",
            Findings::Updates(_) => "updates",
            Findings::Cost(_) => "cost",
            Findings::Monotonic(_) => "monotonic",
            Findings::Offset(_) => "offset",
            Findings::Restore(_) => "restore",
            Findings::Ticks(_) => "ticks",
            Findings::Locks(_) => "locks",
            Findings::Network(_) => "network",
            Findings::Agreement(_) => "agreement",
            Findings::Linux(_) => "linux",
            Findings::Conformance => "conformance",
        }
    }
}
