//! The report of `parachron latency`: the document of `--format json`.

use instruments::latency::{Figure, FigureKind, Latency};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::commands::bench::report::MachineIdentity;

/// All that `parachron latency` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LatencyReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which machine.
    pub(crate) machine: MachineIdentity,
    /// What was measured.
    pub(crate) latency: Latency,
    /// What changed since an earlier run, where there is one to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<RunComparison>,
}

impl LatencyReport {
    /// Of a measurement on this machine.
    pub(crate) fn new(latency: Latency, before: Option<&Self>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: MachineIdentity::this(),
            compared: before.map(|before| RunComparison::new(before, &latency)),
            latency,
        }
    }
}

/// A run beside an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunComparison {
    /// Which machine the earlier one was on.
    pub(crate) machine: MachineIdentity,
    /// Part of all CPU time that was stolen in it, where that was known.
    pub(crate) stolen_share: Option<f64>,
    /// The figures that both have.
    pub(crate) figures: Vec<FigureChange>,
}

/// A figure then and now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FigureChange {
    /// Which one.
    pub(crate) kind: FigureKind,
    /// Its median.
    pub(crate) p50: LandmarkChange,
    /// One in a hundred is longer.
    pub(crate) p99: LandmarkChange,
}

/// A landmark of a figure then and now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LandmarkChange {
    /// In the earlier run, ns.
    pub(crate) before_ns: f64,
    /// In this one, ns.
    pub(crate) now_ns: f64,
    /// By which part of the earlier one it is longer now.
    pub(crate) change: f64,
}

impl LandmarkChange {
    fn new(before_ns: f64, now_ns: f64) -> Self {
        Self { before_ns, now_ns, change: now_ns / before_ns.max(f64::MIN_POSITIVE) - 1.0 }
    }
}

impl RunComparison {
    /// What an earlier report and one of now have in common.
    fn new(before: &LatencyReport, now: &Latency) -> Self {
        let change = |figure: &Figure| {
            let earlier = before.latency.figure(figure.kind)?;
            Some(FigureChange {
                kind: figure.kind,
                p50: LandmarkChange::new(earlier.ns.p50, figure.ns.p50),
                p99: LandmarkChange::new(earlier.ns.p99, figure.ns.p99),
            })
        };
        Self {
            machine: before.machine.clone(),
            stolen_share: before.latency.cpus.stolen,
            figures: now.figures.iter().filter_map(change).collect(),
        }
    }
}
