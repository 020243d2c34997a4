//! The clocks' names.

use schemars::JsonSchema;
use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A clock's name on the command line and in records.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ClockName {
    /// The first PTP hardware clock, /dev/ptp0.
    Phc,
    /// The battery-backed clock.
    Rtc,
    /// The CPU's counter by its nominal frequency: the TSC, on arm64 CNTVCT.
    Tsc,
    /// The kvm-clock page, read in place.
    Pvclock,
    /// CLOCK_MONOTONIC_RAW.
    Raw,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_REALTIME.
    Realtime,
}

impl ClockName {
    /// All, in the order in which they are read: slow to read first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied()
    }

    /// As typed.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Phc => "The first PTP hardware clock, /dev/ptp0",
            Self::Rtc => "The battery-backed clock",
            Self::Tsc => "The CPU's counter (arm64: CNTVCT), by its nominal frequency",
            Self::Pvclock => "The kvm-clock page, read in place",
            Self::Raw => "CLOCK_MONOTONIC_RAW",
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Realtime => "CLOCK_REALTIME",
        }
    }

    /// The clock of that name.
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Whether it counts from 1970, so that its offset from a reference that
    /// does means something.
    pub fn counts_from_1970(self) -> bool {
        matches!(self, Self::Realtime | Self::Rtc | Self::Phc)
    }
}
