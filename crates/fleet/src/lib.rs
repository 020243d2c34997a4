#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod consumers;
mod metrics;
mod samples;
mod snapshot;

pub use consumers::{CONSUMERS, Consumer, consumer, margins};
pub use metrics::{Kind, METRICS, Metric};
pub use samples::{MetricSample, samples};
pub use snapshot::{DaemonTracking, MachineNames, RuleFinding, Snapshot, Source};

/// The dashboard for Grafana, schema version 39 (kinds/dashboard, github.com/grafana/grafana).
pub const DASHBOARD: &str = include_str!("dashboard.json");
