//! The clock's error, as it is reported to the kernel.

use super::*;

#[test]
fn the_kernel_learns_the_error_while_the_clock_is_measured() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    assert_eq!(bench.reported, [ClockError { max_ns: 1001, estimated_ns: 0 }]);
    for _ in 0..2 * 160 {
        bench.sample(&[]);
    }
    assert_eq!(bench.reported.len(), 11, "each 16 s");
    // It left the bound that the kernel has: for a second it may run off faster than that grows.
    bench.move_by(40 * MS);
    (0..2).for_each(|_| drop(bench.sample(&[])));
    assert_eq!((&bench.figures[..], bench.reported.len()), (&[(Some(16 * S), 16 * S)][..], 11));
    bench.sample(&[]);
    let off = bench.reported.last().expect("an error");
    assert_eq!(off.estimated_ns, 40_000_000, "while it is slewed");
    assert!(off.max_ns >= 40_001_001, "{off:?}");
    // So little is ignored, and takes the figure back as well.
    bench.move_by(MS / 2 - 40 * MS);
    (0..8).for_each(|_| drop(bench.sample(&[])));
    let before = (bench.figures.len(), bench.reported.len());
    bench.move_by(MS / 2);
    bench.sample(&[]);
    assert_eq!((bench.figures.len(), bench.reported.len()), (before.0 + 1, before.1));
    // The sources fall silent meanwhile: nobody calls it synchronised, or held over.
    bench.offsets[0] = None;
    (0..8).for_each(|_| drop(bench.sample(&[])));
    let clock = bench.keeper.view(bench.now_ns).clock;
    assert_eq!(clock, crate::KeeperClockState::Unsynchronised);
    bench.offsets[0] = Some((0, 1000));
    (0..8).for_each(|_| drop(bench.sample(&[])));
    assert!(bench.reported.len() > before.1);
    // Without a source the kernel's own figure grows.
    bench.offsets[0] = None;
    let reported = bench.reported.len();
    (0..100).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.reported.len(), reported);
}

#[test]
fn the_error_of_a_clock_that_is_off_is_not_reported() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    bench.move_by(5000 * MS);
    assert!(matches!(bench.sample(&[])[..], [Action::Refuse(..)]));
    let corrector = Corrector::Chronyd { makestep: true, feed: false };
    let mut of_chronyd = Bench::new(Policy { corrector, ..Policy::default() }, &[PAGE]);
    of_chronyd.sample(&[]);
    assert_eq!((bench.reported, of_chronyd.reported), (vec![], vec![]));
}

/// Without sources after a pause the kernel would call it synchronised for hours, and
/// write it to the RTC.
#[test]
fn what_may_have_moved_the_clock_leaves_nothing_known_of_its_error() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    bench.sample(&[]);
    bench.offsets[0] = None;
    let pause = [disruption(Kind::Pause, bench.now_ns, 60e9)];
    bench.sample(&pause);
    bench.sample(&pause);
    assert_eq!(bench.figures, [(Some(16 * S), 16 * S)], "once");
    let (reported, beside) = (bench.reported.len(), Corrector::Beside);
    bench.offsets[0] = Some((0, 5_000_000));
    for _ in 0..20 {
        bench.sample(&[]);
    }
    assert_eq!(bench.reported.len(), reported + 1, "until it is measured");
    let mut beside = Bench::new(Policy { corrector: beside, ..Policy::default() }, &[SERVER]);
    beside.sample(&[]);
    beside.sample(&pause);
    assert_eq!(beside.figures, [], "the other daemon's to say");
}

/// By servers no frequency is known: the probable error grows as the largest does.
#[test]
fn without_servers_the_probable_error_grows() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    bench.sample(&[]);
    bench.offsets[0] = None;
    (0..2 * 70).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.figures, [], "it is polled each minute");
    (0..2 * 130).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.figures.len(), 8, "each 16 s");
    let (max_ns, estimated_ns) = *bench.figures.last().unwrap();
    assert!(max_ns.is_none() && (90 * MS as u64..100 * MS as u64).contains(&estimated_ns));
}

/// A pause that nothing showed, found by the one server, which may not step so far.
#[test]
fn what_is_refused_leaves_nothing_known_of_the_error() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    bench.sample(&[]);
    bench.move_by(5000 * MS);
    bench.now_ns += 100 * S;
    let mut done = Vec::new();
    for _ in 0..200 {
        done.extend(bench.sample(&[]));
    }
    assert!(matches!(done[..], [Action::Refuse(..), ..]), "{done:?}");
    assert_eq!(bench.figures, [(Some(16 * S), 16 * S)], "once");
}

/// A pause is classified some samples after it was corrected. A slew that goes on, just
/// begun or half done, has the kernel told as one that begins: it would call the clock
/// unsynchronised until the slew is over.
#[test]
fn a_slew_under_way_tells_the_kernel_again_what_a_late_disruption_took_back() {
    for (later_s, left_ms) in [(0, 50), (40, 30)] {
        let source = (SourceKind::Ntp, Some((50 * MS, 5_000_000)));
        let mut bench = Bench::new(Policy::default(), &[source]);
        assert!(matches!(bench.sample(&[])[..], [Action::Slew(_)]));
        let error = |left_ms: i64| {
            let estimated_ns = (left_ms * MS).unsigned_abs();
            ClockError { max_ns: estimated_ns + 5_000_001, estimated_ns }
        };
        assert_eq!((&bench.reported[..], &bench.figures[..]), (&[error(50)][..], &[][..]));
        bench.now_ns += later_s * S;
        bench.move_by((left_ms - 50) * MS);
        let pause = [disruption(Kind::Pause, bench.now_ns, 5e9)];
        assert_eq!(bench.sample(&pause), [], "the slew goes on");
        assert_eq!(bench.figures, [(Some(16 * S), 16 * S)]);
        assert_eq!(bench.reported, [error(50), error(left_ms)]);
    }
}

/// A slew that goes on beyond where the clock is right by now, as of a slow crystal, moves it
/// as far as the kernel adds in that time; what the crystal moves it by comes on top.
#[test]
fn the_error_that_is_told_holds_until_a_slew_ends() {
    let source = (SourceKind::Ntp, Some((-32_900_000, 10_000)));
    let mut bench = Bench::new(Policy::default(), &[source]);
    while bench.keeper.clock.slewing.is_none() {
        bench.sample(&[]);
    }
    bench.reported.clear();
    while bench.reported.is_empty() {
        bench.offsets[0] = Some((85_000, 10_000));
        bench.sample(&[]);
    }
    let left_ns = bench.keeper.clock.slewing.unwrap().left_ns(bench.now_ns);
    assert!((-1_000_000..-100_000).contains(&left_ns), "{left_ns}");
    assert!(bench.reported[0].max_ns >= 85_000 + left_ns.unsigned_abs(), "{:?}", bench.reported);
}
