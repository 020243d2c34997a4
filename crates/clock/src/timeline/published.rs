//! What the maintaining thread publishes and every reader reads.
//!
//! Two copies and a count: an odd count sends readers to the second copy
//! while the first is written, an even one to the first while the second is.
//! There is always a whole copy to read, so no reader ever waits for a
//! writer, be it preempted in mid-write, interrupted by the very signal
//! handler that reads, or left behind by `fork`. (The kernel's name for it is
//! a latch: include/linux/seqlock.h, `seqcount_latch_t`.)
//!
//! | writer | reader |
//! | --- | --- |
//! | store odd count | load count |
//! | release fence | acquire fence |
//! | store first copy | load the copy that the count names |
//! | release fence | acquire fence |
//! | store even count | load count again: the same, or try again |
//! | release fence, store second copy | |
//!
//! A reader that saw a new word of a copy being written sees, by the release
//! fence before that word and its own second fence, a newer count than the
//! one that sent it there. `tests/loom.rs` tries every interleaving.

use pvclock::shared::{Aligned, Memory, Word};

use crate::timeline::segment::{Rate, Segment};

/// One publication, as a plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The piece of time laid down last; it may lie ahead.
    pub newest: Segment,
    /// How far into it a reader goes before it sees to the next one, cycles.
    pub due_cycles: u64,
    /// The piece before it, which ends where it begins.
    pub older: Segment,
    /// Off the segments the system's clock is read, and no less than this
    /// returned, ns.
    pub floor_ns: u64,
    /// Off the segments a reader sees to new ones from this time on, ns.
    pub retry_ns: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, ns.
    pub realtime_offset_ns: i64,
    /// How far CLOCK_REALTIME as told may be off at `error_at_ns`.
    pub error_ns: Option<u64>,
    /// When it was that far off at the most; the error grows from then on.
    pub error_at_ns: u64,
}

impl View {
    /// Before anything is known: every reader asks the system.
    pub const EMPTY: Self = Self {
        newest: Segment::none(0),
        due_cycles: 0,
        older: Segment::none(0),
        floor_ns: 0,
        retry_ns: 0,
        realtime_offset_ns: 0,
        error_ns: None,
        error_at_ns: 0,
    };

    /// Whether a round of maintenance is of use at this TSC: the newest segment
    /// has been reached and half of it is over, or the TSC is on none.
    pub const fn is_half_over(&self, tsc: u64) -> bool {
        let into = tsc.wrapping_sub(self.newest.start_tsc);
        !(self.older.holds(tsc) || into < self.newest.cycles / 2)
    }

    /// Where a TSC lies.
    pub const fn place(&self, tsc: u64) -> Place {
        if self.older.holds(tsc) {
            Place::On(self.older.at(tsc))
        } else if !self.newest.holds(tsc) {
            Place::Off
        } else if tsc.wrapping_sub(self.newest.start_tsc) < self.due_cycles {
            Place::On(self.newest.at(tsc))
        } else {
            Place::Due(self.newest.at(tsc))
        }
    }

    /// The time of day at a time on a segment.
    pub const fn on(&self, monotonic_ns: u64) -> TimeOfDay {
        TimeOfDay {
            monotonic_ns,
            realtime_offset_ns: self.realtime_offset_ns,
            error_ns: match self.error_ns {
                Some(ns) => ns,
                None => u64::MAX,
            },
            error_at_ns: self.error_at_ns,
        }
    }

    /// The time of day off the segments, when the system's clock says
    /// `system_ns`: no time below the floor is told, and by what it lies ahead
    /// of the system the time told may be farther off.
    pub const fn off(&self, system_ns: u64) -> TimeOfDay {
        let ahead_ns = self.floor_ns.saturating_sub(system_ns);
        let time = self.on(system_ns + ahead_ns);
        TimeOfDay { error_ns: time.error_ns.saturating_add(ahead_ns), ..time }
    }
}

/// Where a TSC lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On a segment; the time, ns.
    On(u64),
    /// The same, and it is time to see to the next segment.
    Due(u64),
    /// On none: too late for them all, or the TSC jumped.
    Off,
}

#[derive(Debug)]
#[repr(C)]
struct Piece<M: Memory> {
    start_tsc: M::U64,
    cycles: M::U64,
    base_ns: M::U64,
    rate: M::U64,
}

impl<M: Memory> Piece<M> {
    fn new(segment: &Segment) -> Self {
        Self {
            start_tsc: M::U64::new(segment.start_tsc),
            cycles: M::U64::new(segment.cycles),
            base_ns: M::U64::new(segment.base_ns),
            rate: M::U64::new(segment.rate.0),
        }
    }

    fn load(&self) -> Segment {
        Segment {
            start_tsc: self.start_tsc.load(),
            cycles: self.cycles.load(),
            base_ns: self.base_ns.load(),
            rate: Rate(self.rate.load()),
        }
    }

    fn store(&self, segment: &Segment) {
        self.start_tsc.store(segment.start_tsc);
        self.cycles.store(segment.cycles);
        self.base_ns.store(segment.base_ns);
        self.rate.store(segment.rate.0);
    }

    /// The time `into` cycles after the start; nonsense, not a panic, from a
    /// copy that is being written.
    #[inline(always)]
    fn ns(&self, into: u64) -> u64 {
        self.base_ns.load().wrapping_add(into.wrapping_mul(self.rate.load()) >> 32)
    }
}

#[derive(Debug)]
#[repr(C)]
struct Copy<M: Memory> {
    newest: Piece<M>,
    due_cycles: M::U64,
    older: Piece<M>,
    realtime_offset_ns: M::U64,
    /// `u64::MAX` for unbounded.
    error_ns: M::U64,
    error_at_ns: M::U64,
    floor_ns: M::U64,
    retry_ns: M::U64,
}

impl<M: Memory> Copy<M> {
    fn new(view: &View) -> Self {
        Self {
            newest: Piece::new(&view.newest),
            due_cycles: M::U64::new(view.due_cycles),
            older: Piece::new(&view.older),
            realtime_offset_ns: M::U64::new(view.realtime_offset_ns.cast_unsigned()),
            error_ns: M::U64::new(view.error_ns.unwrap_or(u64::MAX)),
            error_at_ns: M::U64::new(view.error_at_ns),
            floor_ns: M::U64::new(view.floor_ns),
            retry_ns: M::U64::new(view.retry_ns),
        }
    }

    fn load(&self) -> View {
        View {
            newest: self.newest.load(),
            due_cycles: self.due_cycles.load(),
            older: self.older.load(),
            floor_ns: self.floor_ns.load(),
            retry_ns: self.retry_ns.load(),
            realtime_offset_ns: self.realtime_offset_ns.load().cast_signed(),
            error_ns: Some(self.error_ns.load()).filter(|&ns| ns != u64::MAX),
            error_at_ns: self.error_at_ns.load(),
        }
    }

    fn store(&self, view: &View) {
        self.newest.store(&view.newest);
        self.due_cycles.store(view.due_cycles);
        self.older.store(&view.older);
        self.floor_ns.store(view.floor_ns);
        self.retry_ns.store(view.retry_ns);
        self.realtime_offset_ns.store(view.realtime_offset_ns.cast_unsigned());
        self.error_ns.store(view.error_ns.unwrap_or(u64::MAX));
        self.error_at_ns.store(view.error_at_ns);
    }

    /// The time at `tsc`, unless there is something to see to first.
    #[inline(always)]
    fn quick_ns(&self, tsc: u64) -> Option<u64> {
        let into = tsc.wrapping_sub(self.newest.start_tsc.load());
        if into < self.due_cycles.load() {
            return Some(self.newest.ns(into));
        }
        let into = tsc.wrapping_sub(self.older.start_tsc.load());
        (into < self.older.cycles.load()).then(|| self.older.ns(into))
    }
}

/// A time of day, as far as the hot path has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay {
    /// The time on CLOCK_MONOTONIC's scale.
    pub monotonic_ns: u64,
    /// As in [`View`].
    pub realtime_offset_ns: i64,
    /// As in [`View`], `u64::MAX` for unbounded.
    pub error_ns: u64,
    /// As in [`View`].
    pub error_at_ns: u64,
}

/// The publication.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Published<M: Memory = Aligned> {
    copies: [Copy<M>; 2],
    count: M::U32,
}

impl<M: Memory> Published<M> {
    /// `view`, published.
    pub fn new(view: &View) -> Self {
        Self { copies: [Copy::new(view), Copy::new(view)], count: M::U32::new(0) }
    }

    /// One try to read something of a whole copy.
    #[inline(always)]
    fn try_read<T>(&self, read: impl FnOnce(&Copy<M>) -> T) -> Option<(u32, T)> {
        let count = self.count.load();
        M::fence_acquire();
        let value = read(&self.copies[(count & 1) as usize]);
        M::fence_acquire();
        (self.count.load() == count).then_some((count, value))
    }

    /// The time at the TSC that `tsc` reads; `None` when there is something
    /// to see to first, or a publication came between.
    #[inline(always)]
    pub fn quick_ns(&self, tsc: impl FnOnce() -> u64) -> Option<u64> {
        self.try_read(|copy| copy.quick_ns(tsc()))?.1
    }

    /// As [`Published::quick_ns`], with what makes a time of day of it.
    #[inline(always)]
    pub fn quick_time_of_day(&self, tsc: impl FnOnce() -> u64) -> Option<TimeOfDay> {
        let read = |copy: &Copy<M>| {
            Some(TimeOfDay {
                monotonic_ns: copy.quick_ns(tsc())?,
                realtime_offset_ns: copy.realtime_offset_ns.load().cast_signed(),
                error_ns: copy.error_ns.load(),
                error_at_ns: copy.error_at_ns.load(),
            })
        };
        self.try_read(read)?.1
    }

    /// All of it, and its count. It tries again only when something new was
    /// published meanwhile, so somebody always gets on.
    pub fn view(&self) -> (u32, View) {
        loop {
            if let Some(whole) = self.try_read(Copy::load) {
                return whole;
            }
            M::pause();
        }
    }

    /// Whether `count` is still the newest, by everything that this thread
    /// has seen until now.
    pub fn is_newest(&self, count: u32) -> bool {
        M::fence_acquire();
        self.count.load() == count
    }

    /// Publishes `view`. One thread at a time: two would mix their words.
    pub fn publish(&self, view: &View) {
        // The next odd count: it is odd already where a publisher stayed
        // behind in the process from which this one was forked.
        let odd = self.count.load().wrapping_add(1) | 1;
        let [first, second] = &self.copies;
        // After the last publication's second copy, or the one mended.
        M::fence_release();
        self.count.store(odd);
        M::fence_release();
        first.store(view);
        M::fence_release();
        self.count.store(odd.wrapping_add(1));
        M::fence_release();
        second.store(view);
    }

    /// What a publisher begins with in a child whose parent's publisher may
    /// have been in mid-write: with the count even it was perhaps at the
    /// second copy, to which the next odd count would send readers. (With an
    /// odd one it was at the first, which the next publication writes.)
    pub fn mend(&self) {
        let [first, second] = &self.copies;
        if self.count.load() & 1 == 0 {
            second.store(&first.load());
        }
    }
}

impl Published<Aligned> {
    /// Nothing published yet, for a `static`.
    pub const fn empty() -> Self {
        use core::sync::atomic::{AtomicU32, AtomicU64};
        const fn piece() -> Piece<Aligned> {
            Piece {
                start_tsc: AtomicU64::new(0),
                cycles: AtomicU64::new(0),
                base_ns: AtomicU64::new(0),
                rate: AtomicU64::new(0),
            }
        }
        const fn copy() -> Copy<Aligned> {
            Copy {
                newest: piece(),
                due_cycles: AtomicU64::new(0),
                older: piece(),
                realtime_offset_ns: AtomicU64::new(0),
                error_ns: AtomicU64::new(u64::MAX),
                error_at_ns: AtomicU64::new(0),
                floor_ns: AtomicU64::new(0),
                retry_ns: AtomicU64::new(0),
            }
        }
        Self { copies: [copy(), copy()], count: AtomicU32::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Segment =
        Segment { start_tsc: 1_000, cycles: 400, base_ns: 70, rate: Rate(1 << 31) };
    const VIEW: View = View {
        older: FIRST,
        newest: Segment { start_tsc: 1_400, cycles: 400, base_ns: 270, rate: Rate(1 << 32) },
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
        assert_eq!(published.view(), (0, View::EMPTY));
        assert_eq!(published.quick_ns(|| 0), None);
        assert_eq!(published.quick_ns(|| u64::MAX), None);
    }

    #[test]
    fn what_is_published_is_read() {
        let published = Published::<Aligned>::empty();
        published.publish(&VIEW);
        assert_eq!(published.view(), (2, VIEW));
        published.publish(&View { error_ns: None, ..VIEW });
        assert_eq!(published.view(), (4, View { error_ns: None, ..VIEW }));
        assert!(published.is_newest(4) && !published.is_newest(2));
    }

    /// Miri runs this too, and looks for data races and reads of another
    /// thread's stale words.
    #[test]
    fn readers_on_threads_have_whole_views() {
        let nth = |n: u64| View { floor_ns: n, retry_ns: 2 * n, error_at_ns: 3 * n, ..VIEW };
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
        published.publish(&View { error_ns: None, ..VIEW });
        assert_eq!(published.view(), (8, View { error_ns: None, ..VIEW }));
    }

    /// The same, forked while the second copy was written: the next
    /// publication sends readers there while it writes the first.
    #[test]
    fn a_second_copy_that_was_left_unfinished_is_mended_before_the_next() {
        for count in [4, 5] {
            let published = Published::<Aligned>::new(&VIEW);
            Word::store(&published.count, count);
            Word::store(&published.copies[(count as usize + 1) % 2].newest.base_ns, 0);
            published.mend();
            assert_eq!(published.view(), (count, VIEW));
            Word::store(&published.count, count | 1);
            assert_eq!(published.view(), (count | 1, VIEW));
        }
    }

    #[test]
    fn what_stands_at_the_floor_may_be_off_by_as_much() {
        let view = View { floor_ns: 300, ..VIEW };
        assert_eq!(view.off(400), view.on(400));
        assert_eq!(view.off(300), view.on(300));
        let standing = view.off(120);
        assert_eq!((standing.monotonic_ns, standing.error_ns), (300, 6 + 180));
        let unbounded = View { error_ns: None, ..view };
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
}
