//! The time that a device is given, and its counter's rate as a fraction, so that nothing drifts.

use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos};

/// So many ticks in so many ns. Every value is computed from the whole time in
/// 128 bits, not summed from rounded parts. For example, 105 ticks in
/// 88,000 ns: after 1 s, 105 · 10^9 / 88,000 = 1,193,181 (.8 is cut).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRate {
    ticks: u64,
    nanos: u64,
}

impl DeviceRate {
    /// A rate of whole cycles a second.
    pub const fn hertz(frequency: Hertz) -> Self {
        Self::new(frequency.0, 1_000_000_000)
    }

    /// `ticks` in `nanos`, which is not 0.
    pub(super) const fn new(ticks: u64, nanos: u64) -> Self {
        assert!(nanos != 0);
        Self { ticks, nanos }
    }

    /// Whole ticks after `time`; the counter is 64 bits wide and wraps.
    pub fn ticks(self, time: Nanos) -> u64 {
        let ticks = u128::from(time.0) * u128::from(self.ticks) / u128::from(self.nanos);
        ticks as u64
    }
}

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
