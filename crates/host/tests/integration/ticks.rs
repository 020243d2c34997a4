//! Missed ticks by policy: what a guest that counts gains and loses, by theory and by
//! counting.

use proptest::prelude::*;
use pvclock::Nanos;
use pvclock_host::ticks::{Backlog, TickPolicy};

const SECOND: u64 = 1_000_000_000;
const PERIOD: u64 = SECOND / 100;
const CATCH_UP: TickPolicy = TickPolicy::CatchUp { rate: 2, most: 1_000 };

/// Runs a timer until `end`: prompt, but held from `from` to `to`. Returns it and when
/// each tick was given.
fn run(policy: TickPolicy, from: u64, to: u64, end: u64) -> (Backlog, Vec<u64>) {
    let mut ticks = Backlog::new(Nanos(PERIOD), policy, Nanos(0)).unwrap();
    let mut given = Vec::new();
    loop {
        let next = ticks.next_at().0;
        let now = if (from..to).contains(&next) { to } else { next };
        if now > end {
            return (ticks, given);
        }
        if ticks.take(Nanos(now)) {
            given.push(now);
        }
        assert!(ticks.next_at().0 > now, "no two at one moment");
    }
}

#[test]
fn a_counting_guest_loses_what_its_policy_says() {
    // 10 s, of which it is held for 10 ms, 1 s; and 100 s, held for 60 s.
    for (held, end) in [(SECOND / 100, 10), (SECOND, 10), (60 * SECOND, 100)] {
        let from = 2 * SECOND + 1;
        let (due, missed) = (end * 100, held / PERIOD);
        let count = |policy| run(policy, from, from + held, end * SECOND).0.delivered();
        assert_eq!(count(TickPolicy::Merge), due - (missed - 1), "{held}");
        // One that is a ns late is not missed.
        let lost = if missed > 1 { missed } else { 0 };
        assert_eq!(count(TickPolicy::Delay), due - lost, "{held}");
        assert_eq!(count(TickPolicy::Discard), due - lost, "{held}");
        // One at once, and 1000 at twice the rate.
        assert_eq!(count(CATCH_UP), due - missed.saturating_sub(1_001), "{held}");
    }
}

#[test]
fn catching_up_takes_as_long_as_the_pause_at_twice_the_rate() {
    let (from, to) = (2 * SECOND + 1, 3 * SECOND + 1);
    let (ticks, given) = run(CATCH_UP, from, to, 10 * SECOND);
    assert_eq!((ticks.owed(), ticks.dropped()), (0, 0));
    let gaps: Vec<_> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|&gap| gap >= PERIOD / 2 - 1), "{:?}", gaps.iter().min());
    // As many as were missed beside those that were due.
    let within = |from, to| given.iter().filter(|&&at| (from..to).contains(&at)).count();
    assert!((199..=202).contains(&within(to, to + SECOND)), "{}", within(to, to + SECOND));
    assert!((99..=101).contains(&within(to + SECOND + PERIOD, to + 2 * SECOND + PERIOD)));
}

proptest! {
    /// Whatever the pauses: no tick is counted twice or lost without a count.
    #[test]
    fn every_tick_is_given_owed_or_dropped(
        policy in prop::sample::select(vec![TickPolicy::Merge, TickPolicy::Discard, CATCH_UP,
            TickPolicy::CatchUp { rate: 10, most: 3 }]),
        period in 1u64..SECOND,
        waits in prop::collection::vec(0u64..5 * SECOND, 1..200),
    ) {
        let mut ticks = Backlog::new(Nanos(period), policy, Nanos(0)).unwrap();
        let mut now = 0;
        for wait in waits {
            now += wait;
            ticks.take(Nanos(now));
            let due = now / period;
            let known = ticks.delivered() + ticks.owed() + ticks.dropped();
            // A look before the next one is due finds none.
            prop_assert!(known == due || ticks.next_at().0 <= now, "{known} of {due}: {ticks:?}");
            prop_assert!(known <= due, "{known} of {due}");
        }
    }

    #[test]
    fn far_times_do_not_overflow(now in any::<u64>(), period in 1u64.., start in any::<u64>()) {
        for policy in [TickPolicy::Delay, TickPolicy::Merge, TickPolicy::Discard, CATCH_UP] {
            let mut ticks = Backlog::new(Nanos(period), policy, Nanos(start)).unwrap();
            ticks.take(Nanos(now));
            ticks.take(Nanos(u64::MAX));
            ticks.next_at();
        }
    }
}

#[test]
fn a_period_of_nothing_is_no_timer() {
    assert_eq!(Backlog::new(Nanos(0), TickPolicy::Delay, Nanos(0)), None);
}
