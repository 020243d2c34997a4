//! The clocks by their names in events and evidence.

pub(crate) const REALTIME: &str = "CLOCK_REALTIME";
pub(crate) const BOOTTIME: &str = "CLOCK_BOOTTIME";
/// CLOCK_MONOTONIC.
pub const MONOTONIC: &str = "CLOCK_MONOTONIC";
/// CLOCK_MONOTONIC_RAW.
pub const RAW: &str = "CLOCK_MONOTONIC_RAW";
/// The TSC.
pub const TSC: &str = "TSC";
