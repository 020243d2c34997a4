//! What a device is told of the time, and what it asks of its machine.

use pvclock::{Nanos, Ticks};
use units::UnixTime;

/// The time at one access, taken once: all that the access does agrees with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The machine's own time. It never goes back, and it goes on from where
    /// it was when the machine is restored; whether it stands still while the
    /// machine is paused is the machine's policy.
    pub since_start: Nanos,
    /// Time of day.
    pub real: UnixTime,
    /// The TSC of the vCPU that makes the access.
    pub guest_tsc: Ticks,
}

#[cfg(test)]
impl Moment {
    /// All clocks at the same number.
    pub(super) fn at(ns: u64) -> Self {
        Self { since_start: Nanos(ns), real: UnixTime(Nanos(ns)), guest_tsc: Ticks(ns) }
    }
}

/// An interrupt that is to be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The PIT's channel 0.
    Pit {
        /// Rising edges of its output since it was asked last, at least 1. A
        /// machine that raises one interrupt for all of them merges ticks, as
        /// a busy host does, and a guest that counts ticks loses time.
        edges: u64,
    },
    /// The serial port.
    Serial,
}

impl Interrupt {
    /// The ISA line it has on every PC.
    pub const fn line(self) -> u8 {
        match self {
            Self::Pit { .. } => 0,
            Self::Serial => 4,
        }
    }
}
