//! Whether this host was suspended, and whether its clock can be believed since.

use std::time::Duration;

use linux::clock::LinuxClock;
use pvclock::units::Bracket;

/// A smaller difference may come from reading one clock after the other.
const SUSPENDED_NS: u64 = 10_000_000;
/// Readings of which the tightest counts.
const TRIES: u32 = 4;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Suspended {
    /// For how long this machine was suspended since it booted.
    for_ns: Option<u64>,
    /// The host's error, while its time daemon has not stated one since.
    doubted: Option<Duration>,
}

impl Suspended {
    /// Whether all guests have to be told, by `error`, which the host states, and
    /// `for_ns`. Who vouches for the clock does so after a suspension as well.
    pub(super) fn look(&mut self, for_ns: Option<u64>, error: Duration, is_vouched: bool) -> bool {
        let before_ns = self.for_ns;
        self.for_ns = for_ns.or(before_ns);
        let was_suspended = before_ns
            .zip(for_ns)
            .is_some_and(|(before_ns, for_ns)| for_ns.abs_diff(before_ns) > SUSPENDED_NS);
        // By itself the error only grows.
        let is_stated_anew = self.doubted.is_some_and(|doubted| error < doubted);
        self.doubted = if was_suspended {
            (!is_vouched).then_some(error)
        } else if is_stated_anew {
            None
        } else {
            self.doubted.map(|_| error)
        };
        was_suspended || is_stated_anew
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }
}

/// For how long this machine was suspended since it booted; none where this thread
/// lost its CPU in each try.
pub(super) fn suspended_ns() -> Option<u64> {
    tightest(|| {
        let before = LinuxClock::Monotonic.read_ns()?;
        let inner = LinuxClock::Boottime.read_ns()?;
        Some(Bracket { before, inner, after: LinuxClock::Monotonic.read_ns()? })
    })
}

fn tightest(take: impl FnMut() -> Option<Bracket>) -> Option<u64> {
    let at = Bracket::tightest(TRIES, SUSPENDED_NS / 20, take)?;
    (at.width()? <= SUSPENDED_NS / 2).then(|| at.inner.saturating_sub(at.before))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_thread_that_loses_its_cpu_was_not_suspended() {
        let lost = Bracket { before: 0, inner: HOUR_NS + 30_000_000, after: 30_000_100 };
        let quick = Bracket { before: 0, inner: HOUR_NS + 50, after: 100 };
        let mut some = [lost, lost, quick].into_iter();
        assert_eq!(tightest(|| some.next()), Some(HOUR_NS + 50));
        assert_eq!(tightest(|| Some(lost)), None);
        assert!(suspended_ns().is_some());
    }

    #[test]
    fn all_are_told_when_the_host_was_suspended_and_when_its_daemon_is_sure_again() {
        let mut host = Suspended::default();
        for (for_ns, error_ms, is_told, is_doubted) in [
            (Some(HOUR_NS), 2, false, false),
            (Some(HOUR_NS + 1_000_000), 1, false, false),
            (None, 3, false, false),
            (Some(2 * HOUR_NS), 3, true, true),
            (Some(2 * HOUR_NS), 4, false, true),
            (None, 50, false, true),
            // Less than at the last look, though not than before the suspension.
            (Some(2 * HOUR_NS), 40, true, false),
            (Some(2 * HOUR_NS), 30, false, false),
        ] {
            assert_eq!(host.look(for_ns, ms(error_ms), false), is_told, "{for_ns:?} {error_ms}");
            assert_eq!(host.is_doubted(), is_doubted, "{for_ns:?} {error_ms}");
        }
        assert!(host.look(Some(3 * HOUR_NS), ms(9), true));
        assert!(!host.is_doubted());
    }
}
