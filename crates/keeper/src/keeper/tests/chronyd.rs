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
        matches!(&done[..], [Action::FeedChronyd(_), Action::AskChronyd { is_first: true, .. }]),
        "{done:?}"
    );
}

#[test]
fn chronyd_is_given_time_to_step() {
    let hand = Hand::Chronyd { step: true, feed: false };
    let mut bench = Bench::new(Policy { hand, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    let asked: Vec<usize> = (0..80).filter(|_| !bench.look(&[]).is_empty()).collect();
    // 3, 3, 6, 12 and 24 s apart.
    assert_eq!(asked, [0, 6, 12, 24, 48]);
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
            let Action::AskChronyd { is_first, .. } = action else { continue };
            asked.push((look, is_first));
        }
    }
    // What chronyd measured is dropped the first time only.
    assert_eq!(asked[..3], [(0, true), (6, false), (12, false)]);
    bench.move_by(-2000 * MS);
    bench.now_ns += 64_000 * MS as u64;
    bench.look(&[]);
    bench.move_by(2000 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
    let done = bench.look(&[pause]);
    assert!(matches!(&done[..], [Action::AskChronyd { is_first: true, .. }]), "{done:?}");
}
