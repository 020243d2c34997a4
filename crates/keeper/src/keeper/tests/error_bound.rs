use super::*;

fn within(bench: &Bench) -> (i64, u64, bool) {
    match bench.keeper.error_bound(bench.now_ns) {
        KeptBound::Within { offset, is_free_running } => {
            (offset.offset_ns, offset.bound_ns, is_free_running)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_known_follows_the_sources_and_what_disturbs_them() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    bench.sample(&[]);
    assert_eq!(within(&bench), (0, 1001, false));
    // Small enough to be slewed: known all the same.
    bench.move_by(50 * MS);
    bench.sample(&[]);
    assert_eq!(within(&bench), (50 * MS, 1001, false));

    // A pause: until the step, which is exact; it is verified by the next measurement.
    bench.move_by(10_000 * MS);
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    step_of(&bench.run());
    assert_eq!(within(&bench), (0, 1001, false));
    bench.sample(&[]);
    assert_eq!(within(&bench).1, 1001);

    // Its sources have gone.
    bench.offsets = vec![None];
    bench.now_ns += bench.keeper.policy.poll_ns + 11 * S;
    bench.sample(&[]);
    assert!(within(&bench).2);

    // An administrator's date.
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::ClockSet, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
}

/// A host that is heard once: what it showed after the pause holds, though the pause is
/// classified some samples later; one that is first seen after that is another.
#[test]
fn a_late_verdict_takes_nothing_measured_since_back() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    bench.move_by(10_000 * MS);
    let seen_ns = bench.now_ns;
    bench.now_ns += MS as u64;
    bench.keeper.suspect(bench.now_ns, CorrectionCause::HostResumed);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    step_of(&bench.run());
    bench.now_ns += 2 * S;
    bench.offsets = vec![None];
    bench.sample(&[disruption(Kind::Pause, seen_ns, 1e10)]);
    assert_eq!(within(&bench).0, 0);
    bench.sample(&[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
}

/// Another daemon may have stepped as well.
#[test]
fn beside_another_daemon_a_step_is_verified_first() {
    let policy = Policy { corrector: Corrector::Beside, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.sample(&[]);
    bench.move_by(10_000 * MS);
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert!(matches!(bench.run()[..], [Action::Step(_), Action::Restart]));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    bench.sample(&[]);
    assert_eq!(within(&bench), (0, 1001, false));
}

#[test]
fn too_few_sources_or_the_rtc_are_no_knowledge() {
    let silent = (SourceKind::Ntp, None);
    let mut bench = Bench::new(Policy::default(), &[PAGE, silent, silent]);
    bench.sample(&[]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::Rtc, Some((0, 1000)))]);
    bench.sample(&[]);
    bench.sample(&[]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
}

/// A set of some microseconds, which the next samples classify: until then it is none.
#[test]
fn no_frequency_is_learnt_while_evidence_is_gathered() {
    for is_gathering in [false, true] {
        let mut bench = Bench::new(Policy::default(), &[PAGE]);
        bench.sample(&[]);
        for _ in 0..4 {
            bench.keeper.gathering(is_gathering);
            bench.move_by(20_000);
            bench.sample(&[]);
        }
        assert_eq!(bench.keeper.frequency().is_some(), !is_gathering);
    }
}
