//! chronyd keeps the clock, and is told.

use super::*;

#[test]
fn chronyd_is_fed_and_asked_and_the_clock_is_left_alone() {
    let hand = Hand::Chronyd { step: true, feed: true };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(40 * MS);
    let done = bench.look(&[]);
    assert!(matches!(&done[..], [Action::FeedChronyd(_)]), "{done:?}");
    bench.move_by(2000 * MS);
    let done = bench.look(&[]);
    assert!(
        matches!(&done[..], [Action::FeedChronyd(_), Action::AskChronyd { anew: true, .. }]),
        "{done:?}"
    );
}

#[test]
fn chronyd_is_given_time_to_step() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    let asked: Vec<usize> = (0..80).filter(|_| !bench.look(&[]).is_empty()).collect();
    // 2 s apart in a round, and then 4 and 8 s.
    assert_eq!(asked, [0, 4, 8, 12, 16, 24, 28, 32, 36, 40, 56, 60, 64, 68, 72]);
}

#[test]
fn chronyd_is_not_fed_what_is_not_gone_by() {
    let hand = Hand::Chronyd { step: false, feed: true };
    let policy = Policy { hand, ..Policy::default() };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    assert_eq!(Bench::new(policy.clone(), &[rtc]).look(&[]), []);
    assert_eq!(Bench::new(policy.clone(), &[SERVER]).look(&[]), [], "once is not enough");
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.look(&[]);
    bench.move_by(-20 * YEAR_MS * MS);
    let done = bench.look(&[]);
    assert!(matches!(done[..], [Action::Refuse(_, Refusal::BeyondMaxStep { .. })]), "{done:?}");
}

#[test]
fn what_is_left_to_chronyd_is_told_once() {
    let hand = Hand::Chronyd { step: false, feed: true };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(60_000 * MS);
    let told = (0..400).flat_map(|_| bench.look(&[]));
    let told = told.filter(|one| matches!(one, Action::Refuse(_, Refusal::LeftToChronyd)));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_server_is_asked_again_once_chronyd_has_had_its_time() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[SERVER]);
    bench.move_by(2000 * MS);
    let mut asked = Vec::new();
    for look in 0..20 {
        for action in bench.look(&[]) {
            let Action::AskChronyd { anew, .. } = action else { continue };
            asked.push((look, anew));
        }
    }
    assert_eq!(asked, [(0, true), (4, false), (8, false), (12, false), (16, false)]);
    bench.move_by(-2000 * MS);
    bench.now_ns += 64_000 * MS as u64;
    bench.look(&[]);
    bench.move_by(2000 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
    let done = bench.look(&[pause]);
    assert!(matches!(&done[..], [Action::AskChronyd { anew: true, .. }]), "{done:?}");
}

/// Looks while chronyd slews with all that it may (`maxslewrate`, 83 333 ppm);
/// each request and the look that it was made in.
fn asked_while_it_slews(bench: &mut Bench, verdict_at_look: usize) -> Vec<(usize, bool)> {
    let paused_ns = bench.now_ns;
    bench.move_by(10_000 * MS);
    let mut asked = Vec::new();
    for look in 0..40 {
        let verdict = disruption(Kind::Pause, paused_ns, 10e9);
        let seen = if look == verdict_at_look { vec![verdict] } else { vec![] };
        for action in bench.look(&seen) {
            let Action::AskChronyd { anew, .. } = action else { panic!("{action:?}") };
            asked.push((look, anew));
        }
        if !asked.is_empty() {
            bench.move_by(-42 * MS);
        }
    }
    asked
}

#[test]
fn what_chronyd_moves_is_no_news() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    for verdict_at_look in [0, 1, 4, 9, 15] {
        let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[SERVER, rtc]);
        bench.look(&[]);
        let asked = asked_while_it_slews(&mut bench, verdict_at_look);
        let anew = asked.iter().filter(|(_, anew)| *anew).map(|(look, _)| *look);
        assert_eq!(anew.collect::<Vec<_>>(), [0, 24], "{verdict_at_look}: {asked:?}");
        assert_eq!(asked.len(), 9, "{verdict_at_look}: {asked:?}");
    }
}

#[test]
fn what_happens_while_chronyd_is_at_it_has_it_measure_anew() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    bench.look(&[]);
    assert_eq!(bench.look(&[]), []);
    let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
    let done = bench.look(&[pause]);
    assert!(matches!(&done[..], [Action::AskChronyd { anew: true, .. }]), "{done:?}");
    // Of a host it is not known what it means, until some seconds have passed.
    bench.keeper.suspect(bench.now_ns, Cause::Told);
    assert_eq!(bench.run(), []);
    bench.now_ns += 4 * S;
    bench.keeper.suspect(bench.now_ns, Cause::Told);
    let done = bench.look(&[]);
    assert!(matches!(&done[..], [Action::AskChronyd { anew: true, .. }]), "{done:?}");
}

#[test]
fn a_round_takes_one_of_the_steps_allowed() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let policy = Policy { hand, burst: 1, min_interval_ns: 3600 * S, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(2000 * MS);
    let (mut asked, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        for action in bench.look(&[]) {
            match action {
                Action::AskChronyd { anew, .. } => asked.push(anew),
                Action::Refuse(_, Refusal::TooOften { .. }) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((asked, refused), (vec![true, false, false, false, false], 1));
}

#[test]
fn what_tells_once_is_enough_for_a_round() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[HOST]);
    let told = |bench: &mut Bench| {
        bench.tell(0, 2000 * MS, 1_000_000);
        let first = bench.run();
        let rest: Vec<Action> = (0..40).flat_map(|_| bench.look(&[])).collect();
        let is_anew = |action: &Action| matches!(action, Action::AskChronyd { anew: true, .. });
        assert!(matches!(&first[..], [first] if is_anew(first)), "{first:?}");
        assert_eq!((rest.len(), rest.iter().any(is_anew)), (4, false), "{rest:?}");
    };
    told(&mut bench);
    // Of another pause, which nothing else shows.
    told(&mut bench);
}

#[test]
fn what_chronyd_steps_by_beside_is_its_own_affair() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(10_000 * MS);
    bench.look(&[]);
    // What it was slewing before it measures anew, the other way; and then.
    for by_ns in [-20_000.0, 10e9, 3000.0] {
        let step = disruption(Kind::ClockSet, bench.now_ns, by_ns);
        assert!(bench.keeper.is_own_step(&step), "{by_ns}");
    }
    let later = disruption(Kind::ClockSet, bench.now_ns + 6 * S, 10e9);
    assert!(!bench.keeper.is_own_step(&later));
}

#[test]
fn the_boards_clock_does_not_have_chronyd_asked_for_ever() {
    let hand = Hand::Chronyd { step: true, feed: false };
    // In local time.
    let rtc = (SourceKind::Rtc, Some((3_600_000 * MS, 500_000_000)));
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[SERVER, rtc]);
    bench.says[0] = Some((2000 * MS, 5_000_000));
    let mut asked = 0;
    for look in 0..400 {
        asked += bench
            .look(&[])
            .iter()
            .filter(|action| matches!(action, Action::AskChronyd { .. }))
            .count();
        if look == 0 {
            // chronyd steps, and the server falls silent.
            bench.says[0] = None;
        }
    }
    assert_eq!(asked, 5, "one round");
}

#[test]
fn what_is_not_confirmed_is_not_fed_in_a_round() {
    let hand = Hand::Chronyd { step: true, feed: true };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[SERVER]);
    bench.move_by(2000 * MS);
    let done = bench.look(&[]);
    assert!(matches!(&done[..], [Action::FeedChronyd(_), Action::AskChronyd { .. }]), "{done:?}");
    // It steps; one answer that says otherwise is none to go by.
    let step = disruption(Kind::ClockSet, bench.now_ns, 2e9);
    assert!(bench.keeper.is_own_step(&step));
    bench.says[0] = Some((900 * MS, 5_000_000));
    let done = bench.look(&[]);
    assert!(!done.iter().any(|action| matches!(action, Action::FeedChronyd(_))), "{done:?}");
}

#[test]
fn a_chronyd_that_fails_is_not_tried_at_each_look() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    bench.succeeds = false;
    let asked = (0..24).filter(|_| !bench.look(&[]).is_empty()).count();
    assert_eq!(asked, 5);
}

#[test]
fn once_chronyd_has_stepped_a_server_is_asked_whether_it_is_right() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[SERVER, rtc]);
    bench.move_by(2000 * MS);
    bench.look(&[]);
    bench.look(&[]);
    assert_eq!(bench.asked, [1], "chronyd is at it");
    bench.move_by(-2000 * MS);
    let step = disruption(Kind::ClockSet, bench.now_ns, 2e9);
    assert!(bench.keeper.is_own_step(&step));
    assert_eq!(bench.look(&[]), []);
    assert_eq!((&bench.asked[..], bench.settled), (&[1, 0][..], 1));
}
