//! chronyd keeps the clock, and is commanded.

use super::*;

#[test]
fn chronyd_is_fed_and_commanded_and_the_clock_is_not_touched() {
    let corrector = Corrector::Chronyd { makestep: true, feed: true };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(40 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::FeedChronyd(_)]), "{done:?}");
    bench.move_by(2000 * MS);
    let done = bench.sample(&[]);
    assert!(
        matches!(&done[..], [Action::FeedChronyd(_), Action::Makestep { restart: true, .. }]),
        "{done:?}"
    );
}

#[test]
fn chronyd_is_given_time_to_step() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    let sent: Vec<usize> = (0..80).filter(|_| !bench.sample(&[]).is_empty()).collect();
    // Every 2 s in a round, and then after 4 and 8 s.
    assert_eq!(sent, [0, 4, 8, 12, 16, 24, 28, 32, 36, 40, 56, 60, 64, 68, 72]);
}

#[test]
fn chronyd_is_not_fed_what_is_not_selected() {
    let corrector = Corrector::Chronyd { makestep: false, feed: true };
    let policy = Policy { corrector, ..Policy::default() };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    assert_eq!(Bench::new(policy.clone(), &[rtc]).sample(&[]), []);
    assert_eq!(Bench::new(policy.clone(), &[SERVER]).sample(&[]), [], "once is not enough");
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.sample(&[]);
    bench.move_by(-20 * YEAR_MS * MS);
    let done = bench.sample(&[]);
    assert!(
        matches!(done[..], [Action::Refuse(_, Refusal::BeyondLongestAbsence { .. })]),
        "{done:?}"
    );
}

#[test]
fn a_step_left_to_chronyd_is_reported_once() {
    let corrector = Corrector::Chronyd { makestep: false, feed: true };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(60_000 * MS);
    let reported = (0..400).flat_map(|_| bench.sample(&[]));
    let reported = reported.filter(|one| matches!(one, Action::Refuse(_, Refusal::LeftToChronyd)));
    assert_eq!(reported.count(), 1);
}

#[test]
fn a_server_is_polled_again_after_chronyds_round() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER]);
    bench.move_by(2000 * MS);
    let mut sent = Vec::new();
    for sample in 0..20 {
        for action in bench.sample(&[]) {
            let Action::Makestep { restart, .. } = action else { continue };
            sent.push((sample, restart));
        }
    }
    assert_eq!(sent, [(0, true), (4, false), (8, false), (12, false), (16, false)]);
    bench.move_by(-2000 * MS);
    bench.now_ns += 64_000 * MS as u64;
    bench.sample(&[]);
    bench.move_by(2000 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
    let done = bench.sample(&[pause]);
    assert!(matches!(&done[..], [Action::Makestep { restart: true, .. }]), "{done:?}");
}

/// Samples while chronyd slews as fast as it may (`maxslewrate`, 83 333 ppm);
/// each command and the sample that it was sent in.
fn sent_while_it_slews(bench: &mut Bench, verdict_at_sample: usize) -> Vec<(usize, bool)> {
    let paused_ns = bench.now_ns;
    bench.move_by(10_000 * MS);
    let mut sent = Vec::new();
    for sample in 0..40 {
        let verdict = disruption(Kind::Pause, paused_ns, 10e9);
        let seen = if sample == verdict_at_sample { vec![verdict] } else { vec![] };
        for action in bench.sample(&seen) {
            let Action::Makestep { restart, .. } = action else { panic!("{action:?}") };
            sent.push((sample, restart));
        }
        if !sent.is_empty() {
            bench.move_by(-42 * MS);
        }
    }
    sent
}

#[test]
fn chronyds_own_slew_is_no_disruption() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    for verdict_at_sample in [0, 1, 4, 9, 15] {
        let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER, rtc]);
        bench.sample(&[]);
        bench.sample(&[]);
        let sent = sent_while_it_slews(&mut bench, verdict_at_sample);
        let restart = sent.iter().filter(|(_, restart)| *restart).map(|(sample, _)| *sample);
        assert_eq!(restart.collect::<Vec<_>>(), [0, 24], "{verdict_at_sample}: {sent:?}");
        assert_eq!(sent.len(), 9, "{verdict_at_sample}: {sent:?}");
    }
}

#[test]
fn a_disruption_during_a_round_restarts_it() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    bench.sample(&[]);
    assert_eq!(bench.sample(&[]), []);
    let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
    let done = bench.sample(&[pause]);
    assert!(matches!(&done[..], [Action::Makestep { restart: true, .. }]), "{done:?}");
    // A host's message may mean the same disruption, for some seconds.
    bench.keeper.suspect(bench.now_ns, CorrectionCause::HostResumed);
    assert_eq!(bench.run(), []);
    bench.now_ns += 4 * S;
    bench.keeper.suspect(bench.now_ns, CorrectionCause::HostResumed);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::Makestep { restart: true, .. }]), "{done:?}");
}

#[test]
fn a_round_takes_one_of_the_steps_allowed() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let policy = Policy { corrector, burst: 1, min_interval_ns: 3600 * S, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(2000 * MS);
    let (mut sent, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        for action in bench.sample(&[]) {
            match action {
                Action::Makestep { restart, .. } => sent.push(restart),
                Action::Refuse(_, Refusal::RateLimited { .. }) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((sent, refused), (vec![true, false, false, false, false], 1));
}

#[test]
fn one_pushed_time_is_enough_for_a_round() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[HOST]);
    let push = |bench: &mut Bench| {
        bench.push(0, 2000 * MS, 1_000_000);
        let first = bench.run();
        let rest: Vec<Action> = (0..40).flat_map(|_| bench.sample(&[])).collect();
        let is_restart = |action: &Action| matches!(action, Action::Makestep { restart: true, .. });
        assert!(matches!(&first[..], [first] if is_restart(first)), "{first:?}");
        assert_eq!((rest.len(), rest.iter().any(is_restart)), (4, false), "{rest:?}");
    };
    push(&mut bench);
    // Another pause, which nothing else shows.
    push(&mut bench);
}

#[test]
fn any_step_during_a_round_may_be_chronyds() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(10_000 * MS);
    bench.sample(&[]);
    // What it was slewing before it restarts its measurements, the other way; then.
    for by_ns in [-20_000.0, 10e9, 3000.0] {
        let step = disruption(Kind::ClockSet, bench.now_ns, by_ns);
        assert!(bench.keeper.is_own_step(&step), "{by_ns}");
    }
    let later = disruption(Kind::ClockSet, bench.now_ns + 6 * S, 10e9);
    assert!(!bench.keeper.is_own_step(&later));
}

#[test]
fn the_rtc_does_not_have_chronyd_commanded_for_ever() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    // In local time.
    let rtc = (SourceKind::Rtc, Some((3_600_000 * MS, 500_000_000)));
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER, rtc]);
    bench.offsets[0] = Some((2000 * MS, 5_000_000));
    let mut sent = 0;
    for sample in 0..400 {
        sent += bench
            .sample(&[])
            .iter()
            .filter(|action| matches!(action, Action::Makestep { .. }))
            .count();
        if sample == 0 {
            // chronyd steps, and the server becomes unreachable.
            bench.offsets[0] = None;
        }
    }
    assert_eq!(sent, 5, "one round");
}

#[test]
fn what_is_not_confirmed_is_not_fed_in_a_round() {
    let corrector = Corrector::Chronyd { makestep: true, feed: true };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER]);
    bench.move_by(800 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::FeedChronyd(_), Action::Makestep { .. }]), "{done:?}");
    // It steps; one reply that contradicts is not confirmed.
    let step = disruption(Kind::ClockSet, bench.now_ns, 8e8);
    assert!(bench.keeper.is_own_step(&step));
    bench.offsets[0] = Some((400 * MS, 5_000_000));
    let done = bench.sample(&[]);
    assert!(!done.iter().any(|action| matches!(action, Action::FeedChronyd(_))), "{done:?}");
}

#[test]
fn a_chronyd_that_fails_is_not_tried_in_each_sample() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    bench.move_by(2000 * MS);
    bench.succeeds = false;
    let sent = (0..24).filter(|_| !bench.sample(&[]).is_empty()).count();
    assert_eq!(sent, 5);
}

#[test]
fn after_chronyds_step_a_server_is_polled_to_verify_it() {
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let rtc = (SourceKind::Rtc, Some((0, 500_000_000)));
    let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER, rtc]);
    bench.move_by(2000 * MS);
    bench.sample(&[]);
    bench.sample(&[]);
    assert_eq!(bench.polled, [1], "chronyd is stepping");
    bench.move_by(-2000 * MS);
    let step = disruption(Kind::ClockSet, bench.now_ns, 2e9);
    assert!(bench.keeper.is_own_step(&step));
    assert_eq!(bench.sample(&[]), []);
    assert_eq!((&bench.polled[..], bench.settled), (&[1, 0][..], 1));
}

/// What was measured before chronyd, or somebody else, set the clock is no sample: all is
/// measured anew first, and a round goes on.
#[test]
fn chronyd_is_not_fed_what_was_measured_before_a_set() {
    let corrector = Corrector::Chronyd { makestep: true, feed: true };
    let policy = Policy { corrector, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE, SERVER, SERVER]);
    bench.sample(&[]);
    bench.move_by(2000 * MS);
    bench.keeper.sample(bench.now_ns, &[]);
    for _ in 0..2 {
        let fed = std::iter::from_fn(|| {
            let action = bench.keeper.next(bench.now_ns)?;
            if let Action::Measure(sources) = &action {
                for index in sources {
                    let offset_ns = bench.offsets[*index].map(|(offset_ns, _)| offset_ns);
                    let offset = offset_ns.map(|offset_ns| OffsetBound {
                        offset_ns,
                        bound_ns: 1000,
                        at_monotonic_ns: bench.now_ns,
                    });
                    bench.keeper.measured(*index, bench.now_ns, offset);
                }
            }
            Some(action)
        });
        let fed = fed.filter_map(|action| match action {
            Action::FeedChronyd(offset) => Some(offset.offset_ns),
            _ => None,
        });
        let fed: Vec<i64> = fed.take(1).collect();
        assert_eq!(fed, [bench.offsets[0].unwrap().0]);
        // Set right just before it was fed.
        bench.move_by(-2000 * MS);
        bench.keeper.was_set_beside_chronyd(bench.now_ns);
    }
}

/// A date that somebody sets is chronyd's to decide: our command does not take it back,
/// neither before the set is classified nor after that.
#[test]
fn a_date_is_not_taken_back_by_our_command_to_chronyd() {
    let corrector = Corrector::Chronyd { makestep: true, feed: true };
    for sources in [&[PAGE][..], &[SERVER, SERVER, SERVER]] {
        let mut bench = Bench::new(Policy { corrector, ..Policy::default() }, sources);
        bench.sample(&[]);
        assert_eq!(bench.settled, 1);
        bench.move_by(-3_600_000 * MS);
        bench.keeper.was_set_beside_chronyd(bench.now_ns);
        let set = disruption(Kind::ClockSet, bench.now_ns, 3.6e12);
        let mut done: Vec<Action> = (0..2).flat_map(|_| bench.sample(&[])).collect();
        done.extend(bench.sample(&[set]));
        done.extend((0..20).flat_map(|_| bench.sample(&[])));
        let is_left = |it: &Action| {
            matches!(it, Action::Refuse(_, Refusal::SetByAnother | Refusal::Unconfirmed))
        };
        assert!(!done.is_empty() && done.iter().all(is_left), "{done:?}");
    }
}
