//! Whether the clock was set since: how far CLOCK_REALTIME is from
//! CLOCK_MONOTONIC changes by that alone, as both go at one rate, slewed or not
//! (and by a leap second, which is a setting to whoever measured before it).

use platform::clock::Clock;
use units::Bracket;

/// CLOCK_REALTIME less CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Apart {
    ns: i128,
}

/// Less may be from reading one clock after the other.
const NOTICED_NS: u64 = 1_000_000;

/// A thread that loses its CPU between the two readings tells it wrongly; one
/// that loses it each time is told that the clock was set, and measures anew.
const TRIES: u32 = 4;

impl Apart {
    /// As it is now; none where the time of day is out of range.
    pub(super) fn now() -> Option<Self> {
        let at = Bracket::tightest(TRIES, NOTICED_NS / 2, || {
            let before = Clock::Monotonic.read_ns()?;
            let inner = Clock::Realtime.read_ns()?;
            Some(Bracket { before, inner, after: Clock::Monotonic.read_ns()? })
        })?;
        Some(Self { ns: i128::from(at.inner) - i128::from(at.before) })
    }

    /// After a step of our own.
    pub(super) fn stepped(self, by_ns: i64) -> Self {
        Self { ns: self.ns + i128::from(by_ns) }
    }

    /// Whether the clock was set between the two.
    pub(super) fn differs_from(self, other: Self) -> bool {
        self.ns.abs_diff(other.ns) > u128::from(NOTICED_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_shows_and_our_own_step_does_not() {
        const MINUTE_NS: i64 = 60_000_000_000;
        let then = Apart { ns: 1_795_000_000_000_000_000 };
        let same = Apart { ns: then.ns + 1_000_000 };
        assert!(!then.differs_from(same) && !same.differs_from(then));
        let set = Apart { ns: then.ns + i128::from(MINUTE_NS) };
        assert!(then.differs_from(set) && set.differs_from(then));
        assert!(!then.stepped(MINUTE_NS).differs_from(set));
        // A step on top of that would be seen as well.
        assert!(then.stepped(2 * MINUTE_NS).differs_from(set));
    }
}
