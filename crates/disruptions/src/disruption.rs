//! A disruption: what happened, when, and by how much it moved a clock.

use pvclock::units::Interval;
use schemars::JsonSchema;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use crate::{Evidence, Kinds};

/// What happened.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The clock was steered: its frequency changed, or it is slewed.
    Steered,
    /// The time of day was set.
    ClockSet,
    /// A leap second was inserted or deleted.
    LeapSecond,
    /// The machine was suspended and resumed.
    Suspend,
    /// The host paused the virtual machine and resumed it.
    Pause,
    /// The virtual machine was restored from a snapshot.
    SnapshotRestored,
    /// The virtual machine was migrated to another host.
    Migrated,
    /// The kernel switched to another clock source.
    SourceSwitched,
    /// The host ran others on the CPU for long.
    LongSteal,
    /// The host stepped the time in its page, and none of the above happened.
    HostStepped,
    /// The counter was disrupted; the cause is unknown.
    CounterDisrupted,
    /// Somebody set the RTC. Where no other clock moved, that cannot be told from a
    /// machine on which all of them stood.
    RtcSet,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Its name in every format: `clock-set`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the time of day may be wrong since, and should be compared with
    /// a source at once.
    pub const fn may_be_wrong(self) -> bool {
        !matches!(
            self,
            Self::Steered
                | Self::LeapSecond
                | Self::SourceSwitched
                | Self::LongSteal
                | Self::RtcSet
        )
    }
}

/// A duration or offset: the true value is within ± the bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Size {
    /// The estimate, ns.
    pub ns: f64,
    /// ±, ns.
    pub bound_ns: f64,
}

impl From<Interval<f64>> for Size {
    fn from(interval: Interval<f64>) -> Self {
        Self { ns: interval.middle(), bound_ns: interval.bound() }
    }
}

/// What happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Disruption {
    /// What happened: one kind, or each kind that fits the evidence.
    pub kinds: Kinds,
    /// CLOCK_MONOTONIC at the sample that first showed it, ns.
    #[serde(skip)]
    pub at_monotonic_ns: u64,
    /// By how much it moved a clock (a clock set, a leap second, a step by the
    /// host), or how long it lasted (a suspend, a pause, a steal); null where
    /// unknown.
    pub size: Option<Size>,
    /// How far the time of day is behind because of it (ahead if negative);
    /// null where unknown. Where an RTC that was set fits as well: unless it was.
    pub behind: Option<Size>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}
