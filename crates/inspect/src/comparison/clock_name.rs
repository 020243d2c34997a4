//! The clocks' names.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A clock's name on the command line and in records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// Each with its name and what it is; slow to read first.
const NAMES: [(ClockName, &str, &str); 8] = [
    (ClockName::Phc, "phc", "The first PTP hardware clock, /dev/ptp0"),
    (ClockName::Rtc, "rtc", "The battery-backed clock"),
    (ClockName::Tsc, "tsc", "The CPU's counter (arm64: CNTVCT), by its nominal frequency"),
    (ClockName::Pvclock, "pvclock", "The kvm-clock page, read in place"),
    (ClockName::Raw, "raw", "CLOCK_MONOTONIC_RAW"),
    (ClockName::Monotonic, "monotonic", "CLOCK_MONOTONIC"),
    (ClockName::Boottime, "boottime", "CLOCK_BOOTTIME"),
    (ClockName::Realtime, "realtime", "CLOCK_REALTIME"),
];

impl ClockName {
    /// All, in the order in which they are read.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(clock, ..)| clock)
    }

    /// As typed.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        self.row().2
    }

    /// The clock of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|clock| clock.name() == name)
    }

    fn row(self) -> (Self, &'static str, &'static str) {
        NAMES.into_iter().find(|(clock, ..)| *clock == self).unwrap_or(NAMES[0])
    }

    /// Whether it counts from 1970, so that its offset from a reference that
    /// does means something.
    pub fn counts_from_1970(self) -> bool {
        matches!(self, Self::Realtime | Self::Rtc | Self::Phc)
    }
}

impl fmt::Display for ClockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
