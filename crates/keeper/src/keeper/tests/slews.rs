use super::*;
use crate::Adjustment;

/// settimeofday(2) and ADJ_SETOFFSET end a slew (`ntp_clear`, kernel/time/ntp.c).
#[test]
fn a_slew_that_a_set_ended_is_begun_again() {
    for by_daemon in [false, true] {
        let source = (SourceKind::Ntp, Some((50 * MS, 5_000_000)));
        let mut bench = Bench::new(Policy::default(), &[source]);
        let slews = |done: &[Action]| matches!(done, [Action::Slew(by)] if by.by_ns == 50 * MS);
        assert!(slews(&bench.sample(&[])));
        bench.now_ns += 40 * S;
        // By 20 ms, of which the slew had made as much.
        let done = if by_daemon {
            bench.keeper.was_set(bench.now_ns);
            bench.sample(&[])
        } else {
            let set = disruption(Kind::ClockSet, bench.now_ns, 20e6);
            bench.sample(&[set])
        };
        // Whether it ended it, is not left to when exactly it was: this does.
        let end = Adjustment { frequency_ppb: None, slew_ns: Some(0) };
        assert_eq!(done.first(), Some(&Action::Discipline(end)));
        assert!(slews(&done[1..]), "{done:?}");
    }
}

/// A slew that is begun after a set, in the sample before the one that shows it, goes on:
/// what it moves is no frequency.
#[test]
fn a_slew_from_the_sample_in_which_the_clock_was_set_is_ended() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.move_by(50 * MS);
    bench.keeper.was_set(bench.now_ns);
    let [Action::Slew(_)] = bench.sample(&[])[..] else { panic!() };
    let set = disruption(Kind::ClockSet, bench.now_ns + 500 * 1_000_000, -50e6);
    let end = Action::Discipline(Adjustment { frequency_ppb: None, slew_ns: Some(0) });
    assert_eq!(bench.sample(&[set]).first(), Some(&end));
}

/// A set is known some samples after it was seen.
#[test]
fn a_set_from_before_a_slew_does_not_end_it() {
    let source = (SourceKind::Ntp, Some((50 * MS, 5_000_000)));
    let mut bench = Bench::new(Policy::default(), &[source]);
    let set = disruption(Kind::ClockSet, bench.now_ns.saturating_sub(1_000_000), 20e6);
    assert!(matches!(bench.sample(&[])[..], [Action::Slew(_)]));
    let left = |bench: &Bench| bench.keeper.clock.slewing.map(|slewing| slewing.by_ns);
    assert_eq!(left(&bench), Some(50 * MS));
    bench.sample(&[set]);
    assert_eq!(left(&bench), Some(50 * MS));
}

/// Noticed between two calls, or by a sample, or by both, and once more: a date is left.
#[test]
fn a_date_that_another_set_is_left_however_it_is_noticed() {
    for (is_noticed, is_reported) in [(true, true), (true, false), (false, true)] {
        let mut bench = Bench::new(Policy::default(), &[PAGE, SERVER, SERVER]);
        bench.sample(&[]);
        for _ in 0..2 {
            bench.move_by(3_600_000 * MS);
            if is_noticed {
                bench.keeper.was_set(bench.now_ns);
                bench.run();
            }
            let set = disruption(Kind::ClockSet, bench.now_ns, -3600e9);
            bench.sample(&[set][..usize::from(is_reported)]);
            for _ in 0..300 {
                let done = bench.sample(&[]);
                assert!(matches!(done[..], [] | [Action::Refuse(_, Refusal::SetByAnother)]));
            }
        }
        // A pause ends that.
        let pause = disruption(Kind::Pause, bench.now_ns, 1e9);
        assert_eq!(step_of(&bench.sample(&[pause])).by_ns, 7_200_000 * MS);
    }
}

/// An RTC moves against a clock that is set back as in an absence.
#[test]
fn a_set_is_no_absence_to_an_rtc() {
    let rtc = (SourceKind::Rtc, Some((0, S / 2)));
    for is_noticed in [false, true] {
        let mut bench = Bench::new(Policy::default(), &[rtc]);
        bench.sample(&[]);
        bench.move_by(7_200_000 * MS);
        if is_noticed {
            bench.keeper.was_set(bench.now_ns);
        }
        bench.keeper.gathering(true, None);
        assert_eq!(bench.sample(&[]), []);
        bench.keeper.gathering(false, None);
        let set = disruption(Kind::ClockSet, bench.now_ns, -7200e9);
        assert_eq!(bench.sample(&[set]), []);
        (0..100).for_each(|_| assert_eq!(bench.sample(&[]), []));
    }
}

/// The clock was ahead, a pause left it behind: a slew back that goes on makes it worse with
/// each second, beyond what the kernel was told.
#[test]
fn a_slew_that_a_pause_turned_round_is_replaced_at_once() {
    let source = (SourceKind::Ntp, Some((-90 * MS, 5_000_000)));
    let mut bench = Bench::new(Policy::default(), &[source]);
    let slews = |done: &[Action], ms| matches!(done, [Action::Slew(by)] if by.by_ns == ms * MS);
    assert!(slews(&bench.sample(&[]), -90));
    bench.now_ns += S / 2;
    bench.move_by(110 * MS);
    let pause = [disruption(Kind::Pause, bench.now_ns, 110e6)];
    assert!(slews(&bench.sample(&pause), 20));
}

/// A source that goes to and fro is no pause: a slew each min-interval, as the policy says.
#[test]
fn a_source_that_goes_to_and_fro_is_slewed_no_more_often_than_allowed() {
    let policy = Policy::default();
    let most = 1 + 600 * S / policy.min_interval_ns;
    for kind in [SourceKind::VmClock, SourceKind::Phc, SourceKind::NetworkCard, SourceKind::Ntp] {
        for by_ms in [20, 90] {
            let source = (kind, Some((by_ms * MS, 1_000_000)));
            let mut bench = Bench::new(policy.clone(), &[source]);
            let mut slews = 0;
            for at in 0..1200 {
                let done = bench.sample(&[]);
                slews += done.iter().filter(|it| matches!(it, Action::Slew(_))).count() as u64;
                bench.move_by(if at % 2 == 0 { -2 * by_ms * MS } else { 2 * by_ms * MS });
            }
            assert!((1..=most).contains(&slews), "{kind:?} by {by_ms} ms: {slews} slews");
        }
    }
}

/// What `date -s` does is classified some samples later; the daemon sees it as the next
/// sample begins. Neither a clock of the host nor a server that is due then undoes it.
#[test]
fn a_date_is_left_before_it_is_classified() {
    let servers = [SERVER, SERVER, SERVER];
    let of = |kind| vec![(kind, Some((0, 1000)))];
    let local = [SourceKind::VmClock, SourceKind::Phc, SourceKind::NetworkCard];
    let beside = local.map(|kind| [of(kind), servers.to_vec()].concat());
    for sources in local.map(of).into_iter().chain(beside).chain([servers.to_vec()]) {
        for by_ms in [50, 5000, 3_600_000, -5000] {
            let mut bench = Bench::new(Policy::default(), &sources);
            // Until the servers are due again.
            let poll = Policy::default().poll_ns / (S / 2);
            (0..poll - 1).for_each(|_| drop(bench.sample(&[])));
            bench.move_by(by_ms * MS);
            let at_ns = bench.now_ns + S / 4;
            let seen = disruption(Kind::ClockSet, at_ns, (-by_ms * MS) as f64);
            bench.keeper.was_set(bench.now_ns + S / 2);
            for late in 0..300 {
                bench.keeper.gathering(late < 2, None);
                let done = bench.sample(&[seen.clone()][..usize::from(late == 2)]);
                let is_left = done.iter().all(|it| match it {
                    Action::Refuse(_, why) => *why == Refusal::SetByAnother,
                    Action::Discipline(by) => by.slew_ns == Some(0),
                    _ => false,
                });
                assert!(is_left, "{by_ms} ms: {done:?}, {sources:?}");
            }
        }
    }
}

/// After a suspend the clock is off by what the RTC does not show, and nobody set a date.
#[test]
fn a_clock_that_the_kernel_moved_is_put_right() {
    for kind in [Kind::Suspend, Kind::LeapSecond] {
        let mut bench = Bench::new(Policy::default(), &[PAGE]);
        bench.sample(&[]);
        bench.move_by(700 * MS);
        bench.keeper.was_moved(bench.now_ns, kind);
        assert_eq!(step_of(&bench.run()).by_ns, 700 * MS);
    }
}
