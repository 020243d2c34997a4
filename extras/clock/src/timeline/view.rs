//! What is published, as plain values.

use crate::timeline::segment::Segment;

/// One publication, as a plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineView {
    /// The newest segment; it may lie ahead.
    pub newest: Segment,
    /// How far into it readers get before maintenance is due, cycles.
    pub due_cycles: u64,
    /// The segment before it, which ends where it begins.
    pub older: Segment,
    /// Outside the segments readers take the system's clock, but return no
    /// less than this, ns.
    pub floor_ns: u64,
    /// Outside the segments maintenance is due from this time on, ns.
    pub retry_ns: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, ns.
    pub realtime_offset_ns: i64,
    /// How far the time of day may be off at `error_at_ns`.
    pub error_ns: Option<u64>,
    /// When it was that far off at the most; the error grows from then on.
    pub error_at_ns: u64,
}

impl TimelineView {
    /// Before anything is known: every read is the system's.
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

    /// Whether a round of maintenance is useful at this TSC: half of the newest
    /// segment is over, or the TSC is on neither.
    pub const fn is_half_over(&self, tsc: u64) -> bool {
        let into = tsc.wrapping_sub(self.newest.start_tsc);
        !(self.older.contains(tsc) || into < self.newest.cycles / 2)
    }

    /// Where a TSC lies.
    pub const fn place(&self, tsc: u64) -> SegmentPlace {
        if self.older.contains(tsc) {
            SegmentPlace::On(self.older.time_ns(tsc))
        } else if !self.newest.contains(tsc) {
            SegmentPlace::Off
        } else if tsc.wrapping_sub(self.newest.start_tsc) < self.due_cycles {
            SegmentPlace::On(self.newest.time_ns(tsc))
        } else {
            SegmentPlace::Due(self.newest.time_ns(tsc))
        }
    }

    /// The time of day at a time on a segment.
    pub const fn time_of_day(&self, monotonic_ns: u64) -> TimeOfDay {
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

    /// The time of day outside the segments, when the system's clock shows
    /// `system_ns`: it is not below the floor, and its error includes by how
    /// much the floor is ahead of the system.
    pub const fn off(&self, system_ns: u64) -> TimeOfDay {
        let ahead_ns = self.floor_ns.saturating_sub(system_ns);
        let time = self.time_of_day(system_ns + ahead_ns);
        TimeOfDay { error_ns: time.error_ns.saturating_add(ahead_ns), ..time }
    }
}

/// Where a TSC lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentPlace {
    /// On a segment; the time, ns.
    On(u64),
    /// The same, and maintenance is due.
    Due(u64),
    /// On none: after both, or the TSC jumped.
    Off,
}

/// A time of day, as far as the hot path computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay {
    /// The time on CLOCK_MONOTONIC's scale.
    pub monotonic_ns: u64,
    /// As in [`TimelineView`].
    pub realtime_offset_ns: i64,
    /// As in [`TimelineView`], `u64::MAX` for unbounded.
    pub error_ns: u64,
    /// As in [`TimelineView`].
    pub error_at_ns: u64,
}
