use super::*;

/// A server that is off by so many milliseconds.
fn server(off_ms: i64) -> (SourceKind, Option<(i64, u64)>) {
    (SourceKind::Ntp, Some((off_ms * MS, 1_000_000)))
}

const RTC: (SourceKind, Option<(i64, u64)>) = (SourceKind::Rtc, Some((0, S / 2)));

/// It is set, as by the kernel half a second off the whole one, while one of three servers
/// lies: the other two show that nobody was away, and what it shows then is learnt.
#[test]
fn an_rtc_that_is_set_leaves_the_clock_synchronised_beside_a_liar() {
    let mut bench = Bench::new(Policy::default(), &[RTC, server(0), server(1), server(5000)]);
    for _ in 0..4 {
        assert_eq!(bench.sample(&[]), [], "it is right");
    }
    bench.offsets[0] = Some((2100 * MS, S / 2));
    for at in 0..40 {
        assert_eq!(bench.sample(&[]), [], "{at}");
        assert_eq!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised, "{at}");
    }
    let view = bench.keeper.view(bench.now_ns);
    assert_eq!(view.sources[0].rtc.map(|rtc| rtc.ahead_ns), Some(2100 * MS));
    assert_eq!(view.sources[0].state, SourceState::TimeAway);
    // What it shows from there is an absence again.
    bench.move_by(30_000 * MS);
    assert_eq!(step_of(&bench.sample(&[])).by_ns / MS, 30_000);
}

/// Two servers of which one lies know no more than it does.
#[test]
fn an_rtc_that_stands_against_a_single_server_is_heard() {
    let mut bench = Bench::new(Policy::default(), &[RTC, server(0), server(5000)]);
    bench.sample(&[]);
    bench.offsets[0] = Some((2100 * MS, S / 2));
    let told = bench.sample(&[]);
    assert!(!told.iter().any(|one| matches!(one, Action::Step(_) | Action::Slew(_))), "{told:?}");
    assert_ne!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised);
}
