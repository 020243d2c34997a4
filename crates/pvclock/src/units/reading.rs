//! A source's time between two readings of this machine's clocks, and how far
//! CLOCK_REALTIME is off by it.

use core::fmt;

use crate::units::Interval;

/// CLOCK_MONOTONIC and CLOCK_REALTIME at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

/// A source's time minus CLOCK_REALTIME, with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetBound {
    /// The source minus CLOCK_REALTIME, ns: what to add to the clock.
    pub offset_ns: i64,
    /// The truth is within ± this, if the source states its own error rightly.
    pub bound_ns: u64,
    /// CLOCK_MONOTONIC when it was measured, ns.
    pub at_monotonic_ns: u64,
}

/// The source's time, somewhere between two stamps of the caller's own clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeReading<S> {
    /// The caller's clocks just before.
    pub before: S,
    /// UTC between the stamps, with the error that the source states, ns since 1970: at one
    /// moment it was no earlier than the first bound, at one no later than the second. Of a
    /// source that was read twice the first may be beyond the second.
    pub utc_ns: Interval<i128>,
    /// What the source showed first and last, ns since 1970: its figures
    /// without their error. The same where it was read once.
    pub shown_ns: (u64, u64),
    /// What the kernel read together with the source.
    pub cross_timestamp: Option<CrossTimestamp>,
    /// The caller's clocks just after.
    pub after: S,
}

/// The system's clocks as the kernel read them with a source: tighter than two
/// stamps around the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossTimestamp {
    /// What the source showed then, ns since 1970.
    pub shown_ns: u64,
    /// CLOCK_REALTIME before and after it; the same where both were latched at
    /// one instant.
    pub realtime_ns: (u64, u64),
    /// CLOCK_MONOTONIC_RAW at that instant.
    pub raw_ns: Option<u64>,
}

/// Why a reading gives no offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetError {
    /// The lower bound is above the upper one: the clock was set meanwhile, or
    /// the source does not go forward.
    Contradiction {
        /// By how much.
        by_ns: u64,
    },
    /// More than 292 years.
    OutOfRange,
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradiction { by_ns } => {
                write!(f, "its time contradicts itself by {by_ns} ns")
            }
            Self::OutOfRange => f.write_str("its time is more than 292 years from CLOCK_REALTIME"),
        }
    }
}

impl core::error::Error for OffsetError {}

impl<S, E> TimeReading<Result<S, E>> {
    /// The reading, where both stamps were taken.
    ///
    /// # Errors
    /// The first stamp's that was not.
    pub fn transpose(self) -> Result<TimeReading<S>, E> {
        let Self { before, utc_ns, shown_ns, cross_timestamp, after } = self;
        Ok(TimeReading { before: before?, utc_ns, shown_ns, cross_timestamp, after: after? })
    }
}

impl TimeReading<ClockPair> {
    /// The source minus CLOCK_REALTIME.
    ///
    /// The offset is at least `earliest - realtime after`, at most `latest -
    /// realtime before`. With UTC 500 ± 100 ns past a second, between
    /// CLOCK_REALTIME at 0 and at 1000 ns past it: -600 to 600 ns, so 0 ± 600.
    ///
    /// CLOCK_REALTIME and CLOCK_MONOTONIC run at one rate. By what they differ
    /// over the time between the stamps the clock was set; the offset may be
    /// that of before or of after, and both bounds widen by it.
    ///
    /// # Errors
    /// The bounds contradict each other, or are too far off.
    pub fn offset(&self) -> Result<OffsetBound, OffsetError> {
        let (before, after) = (self.before, self.after);
        let realtime_ns = self
            .cross_timestamp
            .map_or((before.realtime_ns, after.realtime_ns), |it| it.realtime_ns);
        let took = |end: u64, start: u64| i128::from(end) - i128::from(start);
        let realtime = took(after.realtime_ns, before.realtime_ns);
        let set = (realtime - took(after.monotonic_ns, before.monotonic_ns)).abs();
        let low = self.utc_ns.low - i128::from(realtime_ns.1) - set;
        let high = self.utc_ns.high - i128::from(realtime_ns.0) + set;
        if low > high {
            let by_ns = u64::try_from(low - high).unwrap_or(u64::MAX);
            return Err(OffsetError::Contradiction { by_ns });
        }
        let middle = (low + high).div_euclid(2);
        let (Ok(offset_ns), Ok(bound_ns)) = (i64::try_from(middle), u64::try_from(high - middle))
        else {
            return Err(OffsetError::OutOfRange);
        };
        Ok(OffsetBound { offset_ns, bound_ns, at_monotonic_ns: after.monotonic_ns })
    }
}

#[cfg(test)]
mod tests;
