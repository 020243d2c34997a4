//! What may be corrected, and by whose hand.

use schemars::JsonSchema;
use serde::Serialize;

/// What the keeper goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Policy {
    /// Beyond this the clock is stepped, below it is slewed, ns.
    pub step_threshold_ns: u64,
    /// Errors of up to this are left alone, ns.
    pub tolerance_ns: u64,
    /// Errors beyond this are not believed, ns.
    pub max_step_ns: u64,
    /// Time in which one more step is earned, and from one slew to the next,
    /// ns.
    pub min_interval_ns: u64,
    /// Steps that may be saved up.
    ///
    /// One would leave the second of two pauses in a row uncorrected; without
    /// any limit a source that jumps to and fro would take the clock along. A
    /// few on trust, and then one each interval, is right for both.
    pub burst: u32,
    /// Never set back: a clock that is ahead is slowed.
    pub never_backward: bool,
    /// How often a source beyond this machine is asked while all is calm, ns.
    pub poll_ns: u64,
    /// Who corrects.
    pub hand: Hand,
}

/// Who corrects the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hand {
    /// We do.
    Own,
    /// chronyd does; we never touch the clock.
    Chronyd {
        /// It is asked to step.
        step: bool,
        /// It is fed what the sources say.
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
            // A year: snapshots are restored after months, but a source that
            // is off by decades is a broken one.
            max_step_ns: 366 * 86_400 * S,
            min_interval_ns: 30 * S,
            burst: 3,
            never_backward: false,
            poll_ns: 64 * S,
            hand: Hand::Own,
        }
    }
}
