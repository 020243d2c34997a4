//! The causes of lateness that can be told apart from inside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// Why something was late.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LatenessCause {
    /// The host ran something else, and says so (steal time).
    Stolen,
    /// Its control group had used up its CPU quota.
    Quota,
    /// Another thread of this machine ran.
    RunQueue,
    /// The process was stopped by a signal.
    Stopped,
    /// Interrupts, those of other CPUs included.
    Interrupts,
    /// Softirqs: network, block devices, timers.
    Softirqs,
    /// The kernel's periodic tick.
    Tick,
    /// The firmware took the CPU (system management interrupts).
    Smi,
    /// The CPU was away without a trace: in a virtual machine the host.
    Hidden,
    /// Late, and what was counted proves no cause.
    Unexplained,
    /// The CPU had to leave idle: a halt that the host had to end, or a C-state.
    IdleExit,
    /// Idle for longer than the host polls before it gives the CPU away.
    HaltPolling,
    /// Timers may fire late by the inherited slack.
    TimerSlack,
    /// Timers fire at ticks only: no high-resolution timers.
    CoarseTimers,
    /// CPUs that share a message are far apart, or it has to wake one.
    Placement,
    /// A loop's speed changes slowly: the CPU's frequency does.
    Frequency,
    /// A loop's speed changes at once: another thread shares its core.
    Neighbour,
    /// Reading the clock is slow.
    SlowClock,
    /// An exit to the host costs far more than the processor's part: nesting,
    /// or dear mitigations.
    DearExits,
    /// The peer, or the path to it.
    Peer,
}

impl LatenessCause {
    /// All of them.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Its name, as in JSON: `run-queue`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
