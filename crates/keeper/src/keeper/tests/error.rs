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
    bench.move_by(40 * MS);
    bench.sample(&[]);
    let off = ClockError { max_ns: 40_001_001, estimated_ns: 40_000_000 };
    assert_eq!(bench.reported.last(), Some(&off), "while it is slewed");
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
