//! Whether the clock was set: CLOCK_REALTIME minus CLOCK_BOOTTIME changes by
//! that alone, as both run at one rate, slewed or not, and both go on by what a suspend took
//! (`__timekeeping_inject_sleeptime`, kernel/time/timekeeping.c); and by a leap second. How
//! long the machine slept, CLOCK_BOOTTIME minus CLOCK_MONOTONIC shows. A restored snapshot
//! puts all three back alike.

use linux::adjtimex;
use linux::clock::LinuxClock;
use pvclock::units::Bracket;

/// How the clocks stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObservedRealtimeOffset {
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME.
    realtime: Between,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    asleep: Between,
}

/// One clock minus another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Between {
    /// At the most, ns.
    ns: i128,
    /// It is less by this at the most: one clock is read after the other, ns.
    bound_ns: u64,
}

/// What moved the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetMove {
    /// A process set it.
    Set,
    /// The kernel carried out a leap second.
    LeapSecond,
    /// The machine was suspended.
    Suspend,
}

/// All are rounded to nanoseconds: a smaller difference is not looked for.
const NOTICED_NS: u64 = 1_000;

/// Reads of a slow counter (acpi_pm, some us each) take no longer than this.
const ENOUGH_NS: u64 = 20_000;

/// A thread that loses its CPU between the reads gets a vague result, and reads again.
const TRIES: u32 = 4;

const SECOND_NS: i64 = 1_000_000_000;

impl ObservedRealtimeOffset {
    /// As it is now; `None` where the time of day is out of range.
    pub(crate) fn now() -> Option<Self> {
        let realtime = Between::read(LinuxClock::Realtime, LinuxClock::Boottime)?;
        Some(Self { realtime, asleep: Between::read(LinuxClock::Boottime, LinuxClock::Monotonic)? })
    }

    /// After a step of our own, to the microsecond, rounded either way.
    pub(crate) fn stepped(self, by_ns: i64) -> Self {
        let Between { ns, bound_ns } = self.moved_by(by_ns).realtime;
        Self { realtime: Between { ns: ns + 500, bound_ns: bound_ns + 1000 }, ..self }
    }

    fn moved_by(self, by_ns: i64) -> Self {
        let realtime = Between { ns: self.realtime.ns + i128::from(by_ns), ..self.realtime };
        Self { realtime, ..self }
    }

    /// Of two that do not differ what is known best.
    pub(crate) fn and(self, now: Self) -> Self {
        Self { realtime: self.realtime.and(now.realtime), asleep: self.asleep.and(now.asleep) }
    }

    /// What moved the clock from this to `now`, if anything did.
    pub(crate) fn moved_until(self, now: Self) -> Option<OffsetMove> {
        if self.realtime.differs_from(now.realtime) {
            let is_leap = self.is_second_from(now) && leap_has_passed();
            return Some(if is_leap { OffsetMove::LeapSecond } else { OffsetMove::Set });
        }
        self.asleep.differs_from(now.asleep).then_some(OffsetMove::Suspend)
    }

    /// By how much the clock was moved from this to `now`, ns.
    pub(crate) fn ns_until(self, now: Self) -> i64 {
        let middle_ns = |of: Between| of.ns - i128::from(of.bound_ns / 2);
        i64::try_from(middle_ns(now.realtime) - middle_ns(self.realtime)).unwrap_or_default()
    }

    /// Whether it was moved by a second, either way.
    fn is_second_from(self, now: Self) -> bool {
        let is = |by_ns| !self.moved_by(by_ns).realtime.differs_from(now.realtime);
        [SECOND_NS, -SECOND_NS].into_iter().any(is)
    }
}

/// Whether the kernel has carried one out.
fn leap_has_passed() -> bool {
    let unix_s = LinuxClock::Realtime.read_ns().unwrap_or(0) / SECOND_NS.unsigned_abs();
    adjtimex::read().is_ok_and(|found| is_after_leap(found.state, unix_s))
}

/// By the kernel's state: a set ends it (`ntp_clear`, kernel/time/ntp.c). A clock that the
/// kernel was told is unsynchronised, as by a chronyd without `rtcsync`, has TIME_ERROR in its
/// place: there a second at the end of a UTC day is one.
fn is_after_leap(state: i32, unix_s: u64) -> bool {
    const DAY_S: u64 = 86_400;
    // It is noticed in the next sample, and a second that is inserted is the day's last.
    let is_at_midnight = (unix_s + 2) % DAY_S < 5;
    match state {
        libc::TIME_OOP | libc::TIME_WAIT => true,
        libc::TIME_ERROR => is_at_midnight,
        _ => false,
    }
}

impl Between {
    fn read(inner: LinuxClock, outer: LinuxClock) -> Option<Self> {
        let at = Bracket::tightest(TRIES, ENOUGH_NS, || {
            let before = outer.read_ns()?;
            let inner = inner.read_ns()?;
            Some(Bracket { before, inner, after: outer.read_ns()? })
        })?;
        Some(Self { ns: i128::from(at.inner) - i128::from(at.before), bound_ns: at.width()? })
    }

    fn and(self, now: Self) -> Self {
        if now.bound_ns <= self.bound_ns { now } else { self }
    }

    fn differs_from(self, other: Self) -> bool {
        let least_ns = |of: Self| of.ns - i128::from(of.bound_ns);
        let above_ns = |one: Self, other: Self| least_ns(one) - other.ns;
        above_ns(self, other).max(above_ns(other, self)) > i128::from(NOTICED_NS)
    }
}

#[cfg(test)]
impl ObservedRealtimeOffset {
    /// As if the machine had slept for so long since.
    pub(crate) fn slept(self, for_ns: i64) -> Self {
        let asleep = Between { ns: self.asleep.ns + i128::from(for_ns), ..self.asleep };
        Self { asleep, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;
    const THEN: ObservedRealtimeOffset = ObservedRealtimeOffset {
        realtime: Between { ns: 1_795_000_000_000_000_000, bound_ns: 100 },
        asleep: Between { ns: 7_000_000_000, bound_ns: 100 },
    };

    #[test]
    fn a_clock_set_shows_and_our_own_step_does_not() {
        assert_eq!(THEN.moved_until(THEN.moved_by(1_100)), None);
        assert_eq!(THEN.moved_by(1_100).moved_until(THEN), None);
        let other = THEN.moved_by(1_101);
        assert_eq!(THEN.moved_until(other), Some(OffsetMove::Set));
        assert_eq!(other.moved_until(THEN), Some(OffsetMove::Set));
        let set = THEN.moved_by(MINUTE_NS);
        assert_eq!(THEN.moved_until(set), Some(OffsetMove::Set));
        for rounded_ns in [-500, 500] {
            let ours = set.moved_by(rounded_ns);
            assert_eq!(THEN.stepped(MINUTE_NS).moved_until(ours), None);
            // And the next is not beside the sum of them.
            assert_eq!(THEN.stepped(MINUTE_NS).and(ours), ours);
        }
        // A step on top of that shows as well.
        assert_eq!(THEN.moved_by(2 * MINUTE_NS).moved_until(set), Some(OffsetMove::Set));
        // Read by a thread that lost its CPU for a second each time.
        let ns = THEN.realtime.ns + 1_000_000_000;
        let vague =
            ObservedRealtimeOffset { realtime: Between { ns, bound_ns: 1_000_000_000 }, ..THEN };
        assert_eq!((THEN.moved_until(vague), vague.moved_until(THEN)), (None, None));
        assert_eq!((THEN.and(vague), vague.and(THEN)), (THEN, THEN));
    }

    /// CLOCK_REALTIME and CLOCK_BOOTTIME go on by what it took, and a date that was set
    /// as the machine woke shows beside it.
    #[test]
    fn a_suspend_is_no_set() {
        let awake = THEN.slept(3600 * SECOND_NS);
        assert_eq!(THEN.moved_until(awake), Some(OffsetMove::Suspend));
        assert_eq!(THEN.moved_until(awake.moved_by(MINUTE_NS)), Some(OffsetMove::Set));
    }

    #[test]
    fn a_move_by_a_second_is_known() {
        for by_ns in [SECOND_NS, -SECOND_NS, SECOND_NS + 900] {
            assert!(THEN.is_second_from(THEN.moved_by(by_ns)), "{by_ns}");
        }
        for by_ns in [SECOND_NS + 2000, 2 * SECOND_NS, MINUTE_NS] {
            assert!(!THEN.is_second_from(THEN.moved_by(by_ns)), "{by_ns}");
        }
    }

    #[test]
    fn a_second_is_a_leap_second_only_where_the_kernel_says_so() {
        const DAY_S: u64 = 86_400;
        let (midnight, noon) = (20_000 * DAY_S, 20_000 * DAY_S + DAY_S / 2);
        for state in [libc::TIME_OOP, libc::TIME_WAIT] {
            assert!(is_after_leap(state, midnight) && is_after_leap(state, noon), "{state}");
        }
        // One that is announced has not passed.
        for state in [libc::TIME_OK, libc::TIME_INS, libc::TIME_DEL] {
            assert!(!is_after_leap(state, midnight), "{state}");
        }
        let unsynchronised = |unix_s| is_after_leap(libc::TIME_ERROR, unix_s);
        assert!([midnight - 1, midnight, midnight + 2].into_iter().all(unsynchronised));
        assert!(![midnight - 3, midnight + 3, noon].into_iter().any(unsynchronised));
    }

    #[test]
    fn a_clock_that_nobody_sets_does_not_differ() {
        let then = ObservedRealtimeOffset::now().unwrap();
        assert!(
            (0..1000).all(|_| then.moved_until(ObservedRealtimeOffset::now().unwrap()).is_none())
        );
    }
}
