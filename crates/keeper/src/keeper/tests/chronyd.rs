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
fn without_steps_left_chronyd_goes_on_with_what_it_was_asked() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let policy = Policy { hand, burst: 1, min_interval_ns: 3600 * S, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(2000 * MS);
    let mut asked = Vec::new();
    for look in 0..40 {
        for action in bench.look(&[]) {
            let Action::AskChronyd { anew, .. } = action else { panic!("{action:?}") };
            asked.push((look, anew));
        }
    }
    assert_eq!(asked.iter().filter(|(_, anew)| *anew).count(), 1, "{asked:?}");
    assert_eq!((asked[0], asked.len()), ((0, true), 9), "{asked:?}");
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
