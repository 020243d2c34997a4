//! A reader against the maintaining thread, in every order that the memory
//! model allows. The code under test is the code that runs; only the words of
//! memory are loom's. In a program of its own: the models occupy every CPU, and
//! the tests of `integration` compare clocks meanwhile.
#![cfg(not(miri))]

#[path = "../../../crates/pvclock/tests/modelled/mod.rs"]
mod modelled;

use std::sync::Arc;

use clock::timeline::published::Published;
use clock::timeline::segment::{Segment, SegmentRate};
use clock::timeline::view::TimelineView;

use modelled::Modelled;

/// Segments of 100 cycles; the newest of view `n` begins at cycle 100 · n.
/// Their bases and rates differ so that words of two views make another time.
const fn segment(n: u64) -> Segment {
    Segment {
        start_tsc: 100 * n,
        cycles: 100,
        base_ns: 1_000 * n,
        rate: SegmentRate((1 + n) << 32),
    }
}

const fn view(n: u64) -> TimelineView {
    TimelineView {
        older: segment(n - 1),
        newest: segment(n),
        due_cycles: 75,
        realtime_offset_ns: n as i64,
        error_ns: Some(10 + n),
        error_at_ns: 20 + n,
        ..TimelineView::EMPTY
    }
}

const TWICE: [TimelineView; 2] = [view(2), view(3)];
const ONCE: [TimelineView; 1] = [view(2)];

fn model(
    preemptions: usize,
    publications: &'static [TimelineView],
    read: impl Fn(&Published<Modelled>) + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let published = Arc::new(Published::<Modelled>::new(&view(1)));
        let writer = {
            let published = Arc::clone(&published);
            loom::thread::spawn(move || {
                for view in publications {
                    published.publish(view);
                }
            })
        };
        read(&published);
        writer.join().unwrap();
    });
}

/// Cycle 150 is on the segments of views 1 and 2, and all that hold it agree.
#[test]
fn the_time_of_a_cycle_is_the_same_by_every_view_that_has_it() {
    model(2, &TWICE, |published| {
        if let Some(ns) = published.quick_ns(|| 150) {
            assert_eq!(ns, segment(1).time_ns(150));
        }
    });
}

/// What a reader of the time of day is given is of one publication.
#[test]
fn a_time_of_day_is_whole() {
    model(2, &TWICE, |published| {
        if let Some(time) = published.quick_time_of_day(|| 250) {
            assert_eq!(time.monotonic_ns, segment(2).time_ns(250));
            let n = time.realtime_offset_ns as u64;
            assert_eq!((time.error_ns, time.error_at_ns), (10 + n, 20 + n));
            assert!(n == 2 || n == 3);
        }
    });
}

/// Two reads of one thread: the second has nothing older than the first.
/// (One publication: a second one would take minutes.)
#[test]
fn what_is_read_never_gets_older() {
    model(1, &ONCE, |published| {
        let first = published.quick_ns(|| 250);
        let second = published.quick_ns(|| 250);
        assert!(first.is_none() || second.is_some());
    });
}
