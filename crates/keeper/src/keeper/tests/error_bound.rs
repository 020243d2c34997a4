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

    // A pause: until a measurement has verified the step.
    bench.move_by(10_000 * MS);
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    step_of(&bench.run());
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
