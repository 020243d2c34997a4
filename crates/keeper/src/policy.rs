//! What may be corrected, and by which means.

use schemars::JsonSchema;
use serde::Serialize;

/// The keeper's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Policy {
    /// Offsets beyond this are stepped, smaller ones slewed, ns.
    pub step_threshold_ns: u64,
    /// Offsets up to this are ignored, ns.
    pub tolerance_ns: u64,
    /// The largest offset corrected by one voice alone that nothing else
    /// explains, ns: neither a disruption of that size nor other sources.
    pub max_step_ns: u64,
    /// Minimum interval between steps after a burst, and between slews, ns.
    pub min_interval_ns: u64,
    /// Steps allowed back to back.
    ///
    /// One would leave the second of two pauses uncorrected; without a limit
    /// the clock would follow a source that jumps to and fro. A few at once,
    /// then one per interval, handles both.
    pub burst: u32,
    /// Never set the clock back: a clock that is ahead is slowed.
    pub never_backward: bool,
    /// A clock that may be off by more is not called synchronised, ns.
    pub max_distance_ns: u64,
    /// By how much the clock may gain or lose between two measurements beside what they show of
    /// its rate, ppb, as chrony's `maxclockerror`: the oscillator's stability, or that of two hosts
    /// where the machine may be moved without a word.
    pub max_clock_error_ppb: u64,
    /// Interval between requests to a source outside this machine while
    /// nothing happens, ns.
    pub poll_ns: u64,
    /// What corrects the clock.
    pub corrector: Corrector,
}

/// What corrects the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Corrector {
    /// The kernel, by adjtimex(2) from this process.
    Kernel,
    /// Another daemon, by its own sources; this process steps the clock where
    /// that is due, and has the daemon measure anew.
    Beside,
    /// chronyd; this process never sets the clock.
    Chronyd {
        /// It is sent `makestep`.
        makestep: bool,
        /// It is sent the selected source's offsets as a reference clock.
        feed: bool,
    },
}

impl Default for Policy {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        const S: u64 = 1000 * MS;
        Self {
            step_threshold_ns: 100 * MS,
            tolerance_ns: MS,
            max_step_ns: 3600 * S,
            min_interval_ns: 30 * S,
            burst: 3,
            never_backward: false,
            max_distance_ns: S,
            max_clock_error_ppb: 15_000,
            poll_ns: 64 * S,
            corrector: Corrector::Kernel,
        }
    }
}
