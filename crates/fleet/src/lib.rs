#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod alerts;
mod consumers;
mod dashboard;
pub mod errormap;
mod metrics;
mod samples;
mod snapshot;

pub use alerts::{ALERTS, Alert, RECORDED, Recorded, rules};
pub use consumers::{CONSUMERS, Consumer, consumer, margins};
pub use dashboard::{Dashboard, dashboard};
pub use metrics::{Kind, METRICS, Metric, PAIR_METRICS};
pub use samples::{Sample, pair_sample, samples};
pub use snapshot::{Finding, Followed, MachineNames, Snapshot, Source};
