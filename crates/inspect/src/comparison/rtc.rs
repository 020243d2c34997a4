//! The battery-backed clock as one that can be compared: by its last change of
//! second, and CLOCK_MONOTONIC_RAW since.

use std::cell::Cell;
use std::time::{Duration, Instant};

use instruments::drift::Span;
use sources::RtcSource;
use sources::rtc::{RtcEdge, Seconds, next_edge};

/// The shortest run that has a few of its seconds.
pub(super) const LEAST: Duration = Duration::from_secs(4);

/// Failures to see a second change in a row, after which it is given up.
const FAILURES: u32 = 3;

/// The RTC, and what is known of its seconds.
pub(super) struct RtcAtEdges {
    rtc: RtcSource,
    last: Cell<Option<RtcEdge>>,
    /// How many changes were seen, and how often none since.
    seen: Cell<u64>,
    failures: Cell<u32>,
    /// Whether the next comparison may have it: each is of a change of its own.
    is_shown: Cell<bool>,
    due: Cell<Instant>,
}

impl RtcAtEdges {
    pub(super) fn new(rtc: RtcSource) -> Self {
        Self {
            rtc,
            last: Cell::default(),
            seen: Cell::default(),
            failures: Cell::default(),
            is_shown: Cell::default(),
            due: Cell::new(Instant::now()),
        }
    }

    /// When the looks for its next change of second are to begin; none where it
    /// was given up.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_given_up()).then(|| self.due.get())
    }

    /// Whether it was given up: it cannot be read, or its seconds stand still.
    pub(super) fn is_given_up(&self) -> bool {
        self.failures.get() >= FAILURES
    }

    /// Waits for its next change of second, for some milliseconds where it is
    /// due, or else for up to a second.
    pub(super) fn catch(&self) {
        let edge = next_edge(&self.rtc, self.last.get());
        self.last.set(edge);
        let next_in_ns = match edge {
            Some(edge) => {
                self.seen.set(self.seen.get() + 1);
                self.failures.set(0);
                edge.next_in_ns(self.rtc.now_ns())
            }
            None => {
                self.failures.set(self.failures.get() + 1);
                0
            }
        };
        self.due.set(Instant::now() + Duration::from_nanos(next_in_ns));
    }

    /// Shows it to a comparison that was last shown change number `had`, if
    /// there was another since; the number that it has then.
    pub(super) fn show(&self, had: u64) -> u64 {
        self.is_shown.set(self.seen.get() > had);
        self.seen.get()
    }

    /// What it shows now, where it is to be shown.
    pub(super) fn read(&self) -> Option<Span> {
        self.is_shown.get().then(|| self.span(self.rtc.now_ns()))?
    }

    /// What it showed when CLOCK_MONOTONIC_RAW showed `raw_ns`.
    pub(super) fn span(&self, raw_ns: u64) -> Option<Span> {
        let (before, after) = self.last.get()?.clock_ns(raw_ns)?;
        Some(Span { before, after })
    }
}
