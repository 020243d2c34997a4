//! The time that a device is given.

use pvclock::Nanos;
use pvclock::units::UnixTime;

/// The time at one access, read once: everything that the access does uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The machine's own time. It never goes back, and continues where it was
    /// when the machine is restored; whether it stops while the machine is
    /// paused is the machine's policy.
    pub since_start: Nanos,
    /// Time of day.
    pub real: UnixTime,
}

#[cfg(test)]
impl Moment {
    /// All clocks at the same number.
    pub(super) fn from_ns(ns: u64) -> Self {
        Self { since_start: Nanos(ns), real: UnixTime(Nanos(ns)) }
    }
}
