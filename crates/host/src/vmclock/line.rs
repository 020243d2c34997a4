//! A straight line of time by a counter, and how far from it the truth can be.
//!
//! Times are in units of 2^−64 s since 1970 by TAI's count, as the page has them;
//! intervals in whole ns, rounded outward.

use pvclock::units::Interval;
use pvclock::{Hertz, Nanos};

/// A duration or time in units of 2^−64 s.
pub(crate) type Fine = u128;

pub(crate) const fn fine(ns: u64) -> Fine {
    ((ns as u128) << 64) / 1_000_000_000
}

/// In whole ns, up.
pub(crate) const fn ns_up(fine: Fine) -> u64 {
    let (seconds, fraction) = ((fine >> 64) as u64, fine as u64);
    let below = (fraction as u128 * 1_000_000_000).div_ceil(1 << 64) as u64;
    seconds.saturating_mul(1_000_000_000).saturating_add(below)
}

/// The length of a cycle and its largest error, in units of 2^−(64 + shift) s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CounterPeriod {
    pub(crate) shift: u8,
    pub(crate) length: u64,
    pub(crate) error: u64,
}

impl CounterPeriod {
    /// Of a number of cycles in a duration that is known to ± `error`, with a rate that
    /// wanders by `wander_ppb`. `None` where no cycle passed, or too few a second.
    pub(crate) fn new(elapsed: Fine, error: Fine, cycles: u64, wander_ppb: u64) -> Option<Self> {
        let cycles = u128::from(cycles).max(1);
        if elapsed == 0 || elapsed / cycles >= 1 << 64 {
            return None;
        }
        // The largest with which the period has 64 bits, and the sum 128.
        let room = elapsed.leading_zeros().min(63);
        let shift = (0..=room).rev().find(|&shift| (elapsed << shift) / cycles < 1 << 64)?;
        let length = ((elapsed << shift) / cycles) as u64;
        let by_time = scaled(error, shift)?.div_ceil(cycles);
        let wander = (u128::from(length) * u128::from(wander_ppb)).div_ceil(1_000_000_000);
        // The length was cut.
        let error = u64::try_from(by_time.checked_add(wander)?.checked_add(1)?).ok()?;
        Some(Self { shift: shift as u8, length, error })
    }

    /// Of a rate that is known to a number of parts per billion.
    pub(crate) fn nominal(rate: Hertz, error_ppb: u64) -> Option<Self> {
        Self::new(fine(1_000_000_000), 0, rate.0, error_ppb)
    }

    /// The same length in cycles of another counter, of which `cycles` pass in `per` of
    /// these.
    pub(crate) fn in_cycles(self, cycles: u128, per: u128) -> Option<Self> {
        // Both below 2^64 each, and the quotient is to be of 64 bits again.
        let length = u128::from(self.length) * per / cycles.max(1);
        let error = (u128::from(self.error) * per).div_ceil(cycles.max(1)) + 1;
        let beyond = 64_u32.saturating_sub(length.leading_zeros());
        let shift = u32::from(self.shift).checked_sub(beyond)?;
        // What is cut of the length is part of the error.
        let error = u64::try_from(error.div_ceil(1 << beyond) + 1).ok()?;
        Some(Self { shift: shift as u8, length: (length >> beyond) as u64, error })
    }

    /// Whether its relative error is the smaller one.
    pub(crate) fn is_finer(self, than: Self) -> bool {
        let relative =
            |period: Self| (u128::from(period.error) << 63) / u128::from(period.length).max(1);
        relative(self) < relative(than)
    }

    pub(crate) fn elapsed(self, cycles: u64) -> Fine {
        (u128::from(cycles) * u128::from(self.length)) >> self.shift
    }

    pub(crate) fn error(self, cycles: u64) -> Fine {
        ((u128::from(cycles) * u128::from(self.error)) >> self.shift) + 1
    }
}

fn scaled(fine: Fine, shift: u32) -> Option<Fine> {
    (fine.leading_zeros() >= shift).then(|| fine << shift)
}

/// Its middle, and how far its ends are from that at most; `None` before 1970 and after 2554.
pub(crate) fn middle(interval: Interval<i128>) -> Option<(u64, Nanos)> {
    let middle = interval.low + (interval.high - interval.low) / 2;
    let error = (interval.high - middle).max(middle - interval.low);
    Some((u64::try_from(middle).ok()?, Nanos(u64::try_from(error).ok()?)))
}

/// A line through a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeLine {
    pub(crate) tsc: u64,
    pub(crate) time: Fine,
    pub(crate) error: Nanos,
    pub(crate) period: CounterPeriod,
}

impl TimeLine {
    /// The same line from another TSC value on, forward or back.
    pub(crate) fn moved_to(self, tsc: u64) -> Option<Self> {
        let delta = tsc.wrapping_sub(self.tsc).cast_signed();
        let cycles = delta.unsigned_abs();
        let (elapsed, grown) = (self.period.elapsed(cycles), self.period.error(cycles));
        let time = if delta < 0 {
            self.time.checked_sub(elapsed)?
        } else {
            self.time.checked_add(elapsed)?
        };
        let error = Nanos(self.error.0.checked_add(ns_up(grown))?);
        Some(Self { tsc, time, error, ..self })
    }

    /// Where the time is, ns since 1970 by TAI's count.
    pub(crate) fn interval(self) -> Interval<i128> {
        // To the nearest ns, with one on each side for what that leaves.
        let below = (u128::from(self.time as u64) * 1_000_000_000 + (1 << 63)) >> 64;
        let ns = (self.time >> 64) * 1_000_000_000 + below;
        Interval::around(u64::try_from(ns).unwrap_or(u64::MAX), self.error.0.saturating_add(1))
    }
}
