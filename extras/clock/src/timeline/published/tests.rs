use super::*;

const FIRST: Segment =
    Segment { start_tsc: 1_000, cycles: 400, base_ns: 70, rate: SegmentRate(1 << 31) };
const VIEW: TimelineView = TimelineView {
    older: FIRST,
    newest: Segment { start_tsc: 1_400, cycles: 400, base_ns: 270, rate: SegmentRate(1 << 32) },
    due_cycles: 300,
    floor_ns: 3,
    retry_ns: 4,
    realtime_offset_ns: -5,
    error_ns: Some(6),
    error_at_ns: 7,
};

#[test]
fn nothing_is_published_at_first() {
    let published = Published::empty();
    assert_eq!(published.view(), (0, TimelineView::EMPTY));
    assert_eq!(published.quick_ns(|| 0), None);
    assert_eq!(published.quick_ns(|| u64::MAX), None);
}

#[test]
fn what_is_published_is_read() {
    let published = Published::<Aligned>::empty();
    published.publish(&VIEW);
    assert_eq!(published.view(), (2, VIEW));
    published.publish(&TimelineView { error_ns: None, ..VIEW });
    assert_eq!(published.view(), (4, TimelineView { error_ns: None, ..VIEW }));
    assert!(published.is_newest(4) && !published.is_newest(2));
}

/// Miri runs this too, and looks for data races and reads of another
/// thread's stale words.
#[test]
fn readers_on_threads_have_whole_views() {
    let nth = |n: u64| TimelineView { floor_ns: n, retry_ns: 2 * n, error_at_ns: 3 * n, ..VIEW };
    let last = if cfg!(miri) { 20 } else { 20_000 };
    let published = Published::<Aligned>::new(&nth(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = 0;
                while newest < last {
                    let (_, view) = published.view();
                    assert_eq!(view, nth(view.floor_ns));
                    assert!(view.floor_ns >= newest);
                    newest = view.floor_ns;
                    assert!(published.quick_ns(|| 1_200).is_none_or(|ns| ns == 170));
                    std::thread::yield_now();
                }
            });
        }
        for n in 1..=last {
            published.publish(&nth(n));
        }
    });
}

/// As a child finds it that was forked in the middle of a publication.
#[test]
fn a_publication_that_was_left_unfinished_is_finished_by_the_next() {
    let published = Published::<Aligned>::new(&VIEW);
    Word::store(&published.count, 5);
    Word::store(&published.copies[0].newest.base_ns, 0);
    assert_eq!(published.view(), (5, VIEW));
    published.publish(&TimelineView { error_ns: None, ..VIEW });
    assert_eq!(published.view(), (8, TimelineView { error_ns: None, ..VIEW }));
}

/// The same, forked while the second copy was written: the next
/// publication sends readers there while it writes the first.
#[test]
fn a_second_copy_that_was_left_unfinished_is_mended_before_the_next() {
    for count in [4, 5] {
        let published = Published::<Aligned>::new(&VIEW);
        Word::store(&published.count, count);
        Word::store(&published.copies[(count as usize + 1) % 2].newest.base_ns, 0);
        published.repair();
        assert_eq!(published.view(), (count, VIEW));
        Word::store(&published.count, count | 1);
        assert_eq!(published.view(), (count | 1, VIEW));
    }
}

#[test]
fn what_stands_at_the_floor_may_be_off_by_as_much() {
    let view = TimelineView { floor_ns: 300, ..VIEW };
    assert_eq!(view.off(400), view.time_of_day(400));
    assert_eq!(view.off(300), view.time_of_day(300));
    let standing = view.off(120);
    assert_eq!((standing.monotonic_ns, standing.error_ns), (300, 6 + 180));
    let unbounded = TimelineView { error_ns: None, ..view };
    assert_eq!(unbounded.off(120).error_ns, u64::MAX);
}

#[test]
fn both_segments_serve_until_the_newest_is_due() {
    let published = Published::<Aligned>::new(&VIEW);
    let at = |tsc| published.quick_ns(|| tsc);
    assert_eq!([at(999), at(1_000), at(1_399)], [None, Some(70), Some(269)]);
    assert_eq!([at(1_400), at(1_699), at(1_700)], [Some(270), Some(569), None]);
    let time = published.quick_time_of_day(|| 1_500).unwrap();
    assert_eq!((time.monotonic_ns, time.realtime_offset_ns), (370, -5));
    assert_eq!((time.error_ns, time.error_at_ns), (6, 7));
}
