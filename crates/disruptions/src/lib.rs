#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod classify;
mod disruption;
mod event;
mod evidence;
mod kinds;
mod observer;
pub mod steering;
pub mod text;

use schemars::JsonSchema;
use serde::Serialize;

pub use disruption::{Disruption, Kind, Size};
pub use event::{Event, Happened, LateCause, ObservedPageUpdate, page_fact, seconds};
pub use evidence::Evidence;
pub use kinds::Kinds;
pub use observer::{Observed, Observer, SLEW_SEEN_NS};

// The clocks by their names in events and evidence.

const REALTIME: &str = "CLOCK_REALTIME";
const BOOTTIME: &str = "CLOCK_BOOTTIME";
/// CLOCK_MONOTONIC.
pub const MONOTONIC: &str = "CLOCK_MONOTONIC";
/// CLOCK_MONOTONIC_RAW.
pub const RAW: &str = "CLOCK_MONOTONIC_RAW";
/// The TSC.
pub const TSC: &str = "TSC";

/// An event and its time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stamped<E> {
    /// CLOCK_REALTIME, ns since 1970; null if it is before 1970.
    pub at_unix_ns: Option<u64>,
    /// CLOCK_MONOTONIC, ns.
    pub at_monotonic_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: E,
}
