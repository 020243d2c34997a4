//! What the maintaining thread publishes and every reader reads.
//!
//! Two copies and a count: an odd count sends readers to the second copy
//! while the first is written, an even one to the first while the second is.
//! There is always a whole copy to read, so no reader ever waits for a
//! writer, even one preempted in mid-write, interrupted by the signal handler
//! that reads, or lost in a `fork`. (The kernel calls it a latch: include/linux/seqlock.h, `seqcount_latch_t`.)
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
//! A reader that saw a new word of a copy being written also sees, by the release
//! fence before that word and its own second fence, a newer count than the
//! one it started with. `tests/loom.rs` tries every interleaving.

use pvclock::shared::{Aligned, Memory, Word};

use crate::timeline::segment::{Segment, SegmentRate};
use crate::timeline::view::{TimeOfDay, TimelineView};

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
            rate: SegmentRate(self.rate.load()),
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
    fn new(view: &TimelineView) -> Self {
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

    fn load(&self) -> TimelineView {
        TimelineView {
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

    fn store(&self, view: &TimelineView) {
        self.newest.store(&view.newest);
        self.due_cycles.store(view.due_cycles);
        self.older.store(&view.older);
        self.floor_ns.store(view.floor_ns);
        self.retry_ns.store(view.retry_ns);
        self.realtime_offset_ns.store(view.realtime_offset_ns.cast_unsigned());
        self.error_ns.store(view.error_ns.unwrap_or(u64::MAX));
        self.error_at_ns.store(view.error_at_ns);
    }

    /// The time at `tsc`, unless maintenance is due first.
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

/// The publication.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Published<M: Memory = Aligned> {
    copies: [Copy<M>; 2],
    count: M::U32,
}

impl<M: Memory> Published<M> {
    /// `view`, published.
    pub fn new(view: &TimelineView) -> Self {
        Self { copies: [Copy::new(view), Copy::new(view)], count: M::U32::new(0) }
    }

    /// One attempt to read something of a whole copy.
    #[inline(always)]
    fn try_read<T>(&self, read: impl FnOnce(&Copy<M>) -> T) -> Option<(u32, T)> {
        let count = self.count.load();
        M::fence_acquire();
        let value = read(&self.copies[(count & 1) as usize]);
        M::fence_acquire();
        (self.count.load() == count).then_some((count, value))
    }

    /// The time at the TSC that `tsc` reads; `None` when maintenance is due
    /// first, or a publication interfered.
    #[inline(always)]
    pub fn quick_ns(&self, tsc: impl FnOnce() -> u64) -> Option<u64> {
        self.try_read(|copy| copy.quick_ns(tsc()))?.1
    }

    /// As [`Published::quick_ns`], with the offset and error of the time of day.
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

    /// All of it, and its count. It retries only when something new was
    /// published meanwhile, so some thread always makes progress.
    pub fn view(&self) -> (u32, TimelineView) {
        loop {
            if let Some(whole) = self.try_read(Copy::load) {
                return whole;
            }
            M::pause();
        }
    }

    /// Whether `count` is still the newest, by everything that this thread
    /// has observed so far.
    pub fn is_newest(&self, count: u32) -> bool {
        M::fence_acquire();
        self.count.load() == count
    }

    /// Publishes `view`. One thread at a time: two would mix their words.
    pub fn publish(&self, view: &TimelineView) {
        // The next odd count: it is odd already where a publisher was writing
        // in the process from which this one was forked.
        let odd = self.count.load().wrapping_add(1) | 1;
        let [first, second] = &self.copies;
        // After the last publication's second copy, or a repaired one.
        M::fence_release();
        self.count.store(odd);
        M::fence_release();
        first.store(view);
        M::fence_release();
        self.count.store(odd.wrapping_add(1));
        M::fence_release();
        second.store(view);
    }

    /// Must be called first in a child whose parent's publisher may have been
    /// in mid-write: with an even count it may have been writing the second
    /// copy, to which the next odd count sends readers. (With an odd one it was
    /// writing the first, which the next publication overwrites.)
    pub fn repair(&self) {
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
mod tests;
