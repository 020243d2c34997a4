//! Whether the clock was set: CLOCK_REALTIME minus CLOCK_MONOTONIC changes by
//! that alone, as both run at one rate, slewed or not (and by a leap second,
//! which sets the clock for anyone who measured before it).

use linux::clock::Clock;
use units::Bracket;

/// CLOCK_REALTIME minus CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RealtimeOffset {
    ns: i128,
}

/// A smaller difference may come from reading one clock after the other.
const NOTICED_NS: u64 = 1_000_000;

/// A thread that loses its CPU between the two reads gets a wrong result; one
/// that loses it each time finds that the clock was set, and measures again.
const TRIES: u32 = 4;

impl RealtimeOffset {
    /// As it is now; `None` where the time of day is out of range.
    pub(crate) fn now() -> Option<Self> {
        let at = Bracket::tightest(TRIES, NOTICED_NS / 2, || {
            let before = Clock::Monotonic.read_ns()?;
            let inner = Clock::Realtime.read_ns()?;
            Some(Bracket { before, inner, after: Clock::Monotonic.read_ns()? })
        })?;
        Some(Self { ns: i128::from(at.inner) - i128::from(at.before) })
    }

    /// After a step of our own.
    pub(crate) fn stepped(self, by_ns: i64) -> Self {
        Self { ns: self.ns + i128::from(by_ns) }
    }

    /// Whether the clock was set between the two.
    pub(crate) fn differs_from(self, other: Self) -> bool {
        self.ns.abs_diff(other.ns) > u128::from(NOTICED_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_shows_and_our_own_step_does_not() {
        const MINUTE_NS: i64 = 60_000_000_000;
        let then = RealtimeOffset { ns: 1_795_000_000_000_000_000 };
        let same = RealtimeOffset { ns: then.ns + 1_000_000 };
        assert!(!then.differs_from(same) && !same.differs_from(then));
        let set = RealtimeOffset { ns: then.ns + i128::from(MINUTE_NS) };
        assert!(then.differs_from(set) && set.differs_from(then));
        assert!(!then.stepped(MINUTE_NS).differs_from(set));
        // A step on top of that shows as well.
        assert!(then.stepped(2 * MINUTE_NS).differs_from(set));
    }
}
