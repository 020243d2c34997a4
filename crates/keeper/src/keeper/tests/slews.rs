use super::*;

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
        assert!(slews(&done), "{done:?}");
    }
}

/// A set is known some samples after it was seen.
#[test]
fn a_set_from_before_a_slew_does_not_end_it() {
    let source = (SourceKind::Ntp, Some((50 * MS, 5_000_000)));
    let mut bench = Bench::new(Policy::default(), &[source]);
    let set = disruption(Kind::ClockSet, bench.now_ns.saturating_sub(1_000_000), 20e6);
    assert!(matches!(bench.sample(&[])[..], [Action::Slew(_)]));
    let left = |bench: &Bench| bench.keeper.slewing.map(|slewing| slewing.by_ns);
    assert_eq!(left(&bench), Some(50 * MS));
    bench.sample(&[set]);
    assert_eq!(left(&bench), Some(50 * MS));
}
