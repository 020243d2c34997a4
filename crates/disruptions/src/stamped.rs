//! An event with its time on two clocks: what a line of a log is made of.

use schemars::JsonSchema;
use serde::Serialize;

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
