//! How far a source is from CLOCK_REALTIME, and how that follows from a
//! reading between two moments.

use super::NoOffset;
use crate::clock::Clock;
use facts::Unknown;

/// A source against CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The source minus CLOCK_REALTIME, ns: what to add to the clock.
    pub offset_ns: i64,
    /// The truth is within ± this, by the source's own word.
    pub bound_ns: u64,
    /// CLOCK_MONOTONIC when it was compared, ns.
    pub at_monotonic_ns: u64,
}

/// This machine's clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

impl Moment {
    /// Now.
    ///
    /// # Errors
    /// CLOCK_REALTIME shows a time before 1970 or after 2554.
    pub fn now() -> Result<Self, Unknown> {
        let read = |clock: Clock| {
            let outside = "a time from 1970 to 2554";
            clock.read_ns().ok_or_else(|| Unknown::malformed(clock.name(), outside, "another"))
        };
        Ok(Self { monotonic_ns: read(Clock::Monotonic)?, realtime_ns: read(Clock::Realtime)? })
    }
}

/// What a source said: that at some moment between two it was no earlier than
/// `earliest_ns` and no later than `latest_ns`, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) earliest_ns: i128,
    pub(super) latest_ns: i128,
}

impl Told {
    /// `at_ns`, give or take.
    pub(super) fn around(at_ns: u64, error_ns: u64) -> Self {
        let (at, error) = (i128::from(at_ns), i128::from(error_ns));
        Self { earliest_ns: at - error, latest_ns: at + error }
    }

    /// The offset of `what`, which told this between two moments.
    pub(super) fn between(
        self,
        what: impl Fn() -> String,
        before: Moment,
        after: Moment,
    ) -> Result<Offset, NoOffset> {
        self.against(what, (before.realtime_ns, after.realtime_ns), (before, after))
    }

    /// As [`Told::between`], where CLOCK_REALTIME is known more tightly
    /// around what was told than the two moments have it.
    ///
    /// CLOCK_REALTIME and CLOCK_MONOTONIC go at one rate: what they differ by
    /// in the time between the moments says that the clock was set, and by
    /// how much the offset may be of before or after.
    pub(super) fn against(
        self,
        what: impl Fn() -> String,
        realtime_ns: (u64, u64),
        (before, after): (Moment, Moment),
    ) -> Result<Offset, NoOffset> {
        let took = |end: u64, start: u64| i128::from(end) - i128::from(start);
        let realtime = took(after.realtime_ns, before.realtime_ns);
        let set = (realtime - took(after.monotonic_ns, before.monotonic_ns)).abs();
        let low = self.earliest_ns - i128::from(realtime_ns.1) - set;
        let high = self.latest_ns - i128::from(realtime_ns.0) + set;
        if low > high {
            let by_ns = u64::try_from(low - high).unwrap_or(u64::MAX);
            return Err(NoOffset::Contradiction { what: what(), by_ns });
        }
        let middle = (low + high).div_euclid(2);
        let (Ok(offset_ns), Ok(bound_ns)) = (i64::try_from(middle), u64::try_from(high - middle))
        else {
            return Err(NoOffset::OutOfRange { what: what() });
        };
        Ok(Offset { offset_ns, bound_ns, at_monotonic_ns: after.monotonic_ns })
    }
}

#[cfg(test)]
mod tests;
