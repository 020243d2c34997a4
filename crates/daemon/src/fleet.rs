//! Defines the metrics of a fleet, and the clock-error limit of each database. Input: a
//! [`Snapshot`] of one machine. Output: samples.
//!
//! ```
//! use daemon::fleet::{Snapshot, margins, samples};
//!
//! let clock = Snapshot { error_bound_s: Some(0.001), ..Snapshot::default() };
//! let of_cockroachdb = margins(&clock).find(|(consumer, _)| consumer.name == "cockroachdb");
//! assert_eq!(of_cockroachdb.map(|(_, margin_s)| margin_s), Some(0.199));
//! assert!(samples(&clock).iter().any(|it| it.metric.name == "parachron_clock_margin_seconds"));
//! ```
//!
//! A margin is computed from a bound, not from an offset: an offset that reads 0 because it was
//! never measured gives no margin.

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
pub const DASHBOARD: &str = include_str!("fleet/dashboard.json");
