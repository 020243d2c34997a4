//! A disruption: what it was, when, and how far it moved the time.

use instruments::steps::Interval;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Evidence;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Somebody steers: an NTP daemon changed the frequency, or slews.
    Steered,
    /// Somebody set the time of day.
    ClockSet,
    /// A leap second was inserted or deleted.
    LeapSecond,
    /// The machine slept, and woke.
    Suspend,
    /// The host stopped the virtual machine, and let it go on.
    Pause,
    /// The virtual machine is a copy of what it was at an earlier time.
    SnapshotRestored,
    /// The virtual machine goes on on another host.
    Migrated,
    /// The kernel took another clock source.
    SourceSwitched,
    /// The host gave the CPU to others for long.
    LongSteal,
    /// The host moved the time that its page tells, without one of the above.
    HostStepped,
    /// The counter was disrupted, and nothing says by what.
    CounterDisrupted,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Steered,
        Self::ClockSet,
        Self::LeapSecond,
        Self::Suspend,
        Self::Pause,
        Self::SnapshotRestored,
        Self::Migrated,
        Self::SourceSwitched,
        Self::LongSteal,
        Self::HostStepped,
        Self::CounterDisrupted,
    ];

    /// Its name in every format: `clock-set`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steered => "steered",
            Self::ClockSet => "clock-set",
            Self::LeapSecond => "leap-second",
            Self::Suspend => "suspend",
            Self::Pause => "pause",
            Self::SnapshotRestored => "snapshot-restored",
            Self::Migrated => "migrated",
            Self::SourceSwitched => "source-switched",
            Self::LongSteal => "long-steal",
            Self::HostStepped => "host-stepped",
            Self::CounterDisrupted => "counter-disrupted",
        }
    }

    /// Whether the time of day may be wrong since, so that whoever keeps it
    /// does well to compare it with a source at once.
    pub const fn may_be_wrong(self) -> bool {
        !matches!(self, Self::Steered | Self::LeapSecond | Self::SourceSwitched | Self::LongSteal)
    }
}

/// A time and its bound: the truth is within ± the bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Size {
    /// The estimate, ns.
    pub ns: f64,
    /// ±, ns.
    pub bound_ns: f64,
}

impl From<Interval> for Size {
    fn from(interval: Interval) -> Self {
        Self { ns: interval.middle(), bound_ns: interval.bound() }
    }
}

/// What happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Disruption {
    /// What it was, as far as the evidence tells.
    pub kind: Kind,
    /// CLOCK_MONOTONIC at the look that first showed it, ns.
    #[serde(skip)]
    pub at_monotonic_ns: u64,
    /// How far it moved a clock (a clock set, a leap second, a step by the
    /// host), or how long it lasted (a sleep, a pause, a steal); null where
    /// that is not known.
    pub size: Option<Size>,
    /// How far the time of day is behind on its account (ahead where
    /// negative); null where that is not known.
    pub behind: Option<Size>,
    /// What it is told from.
    pub evidence: Vec<Evidence>,
}
