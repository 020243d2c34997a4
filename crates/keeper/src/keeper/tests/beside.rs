//! Another daemon disciplines the clock: only steps.

use super::*;
use crate::frequency::LearntFrequency;

fn beside(sources: &[(SourceKind, Option<(i64, u64)>)]) -> Bench {
    Bench::new(Policy { corrector: Corrector::Beside, ..Policy::default() }, sources)
}

#[test]
fn in_calm_nothing_is_done() {
    let mut bench = beside(&[PAGE]);
    for _ in 0..200 {
        assert_eq!(bench.sample(&[]), []);
        // It drifts, and the other daemon has not noticed yet.
        bench.move_by(20_000);
    }
    assert_eq!((bench.reported.len(), bench.settled), (0, 1));
    assert_eq!(bench.keeper.frequency(), None);
}

#[test]
fn after_a_step_the_daemon_measures_anew_and_the_error_is_reported_once() {
    let mut bench = beside(&[PAGE]);
    bench.sample(&[]);
    bench.move_by(60_000 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns, 60e9);
    let done = bench.sample(&[pause]);
    let [Action::Step(by), Action::Restart] = &done[..] else { panic!("{done:?}") };
    assert_eq!(by.by_ns, 60_000 * MS);
    (0..100).for_each(|_| assert_eq!(bench.sample(&[]), []));
    assert_eq!(bench.reported, [ClockError { max_ns: 1001, estimated_ns: 0 }]);
}

#[test]
fn a_short_pause_is_left_to_the_daemon_which_is_told_once() {
    let mut bench = beside(&[PAGE]);
    bench.sample(&[]);
    bench.move_by(40 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns, 40e6);
    assert_eq!(bench.sample(&[pause]), [Action::Restart]);
    (0..100).for_each(|_| assert_eq!(bench.sample(&[]), []));
    assert_eq!((bench.reported.len(), bench.settled), (0, 1));
}

#[test]
fn what_may_not_go_back_is_left_to_the_daemon() {
    let policy = Policy { corrector: Corrector::Beside, never_backward: true, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(-2000 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(done[..], [Action::Refuse(_, Refusal::LeftToChronyd)]), "{done:?}");
    assert_eq!(bench.sample(&[]), []);
}

#[test]
fn discipline_is_taken_over_and_given_away() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    let disciplines = |bench: &mut Bench| {
        bench.offsets[0] = PAGE.1;
        let of = |action: &Action| matches!(action, Action::Discipline(_));
        (0..60).any(|_| {
            bench.move_by(20_000);
            bench.sample(&[]).iter().any(of)
        })
    };
    assert!(disciplines(&mut bench));
    assert!(bench.keeper.set_corrector(Corrector::Beside));
    assert!(!bench.keeper.set_corrector(Corrector::Beside));
    assert!(!disciplines(&mut bench));
    assert!(bench.keeper.set_corrector(Corrector::Kernel));
    assert!(disciplines(&mut bench));
}

/// What it measured is lost each time, so not each pause of many is told.
#[test]
fn a_daemon_beside_is_not_told_of_each_short_pause_of_many() {
    let mut bench = beside(&[PAGE]);
    bench.sample(&[]);
    let mut told = 0;
    for _ in 0..100 {
        bench.move_by(40 * MS);
        let pause = disruption(Kind::Pause, bench.now_ns, 40e6);
        told += bench.sample(&[pause]).len();
        // The daemon has corrected it.
        bench.offsets[0] = PAGE.1;
        (0..3).for_each(|_| told += bench.sample(&[]).len());
    }
    // A burst, and one in 30 s.
    assert!((3..=3 + 200 / 30 + 1).contains(&told), "{told}");
}

#[test]
fn what_was_learnt_is_set_only_where_a_source_can_show_it_to_be_wrong() {
    let stored = Some(LearntFrequency { ppb: 100_000.0, uncertainty_ppb: 100.0 });
    for (source, sets) in [(PAGE, true), ((SourceKind::Ntp, PAGE.1), false)] {
        let mut bench = Bench::new(Policy::default(), &[source]);
        bench.keeper.start_at(0.0, stored);
        let done = bench.sample(&[]);
        let disciplines = done.iter().any(|action| matches!(action, Action::Discipline(_)));
        assert_eq!(disciplines, sets, "{done:?}");
    }
}

#[test]
fn another_clock_begins_with_what_it_is_set_to() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.keeper.start_at(0.0, Some(LearntFrequency { ppb: 100_000.0, uncertainty_ppb: 100.0 }));
    bench.sample(&[]);
    assert!(bench.keeper.frequency().is_some());
    bench.keeper.start_at(80_000.0, None);
    assert_eq!(bench.keeper.frequency(), None);
}
