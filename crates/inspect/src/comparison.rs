//! Clocks compared with references for as long as a caller likes, and what
//! their figures together show. Reads clocks and sets none; names and figures
//! go in and out, words are the caller's.
//!
//! - [`ClockName`], [`ComparedClocks`]: the clocks that are measured.
//! - [`ComparisonReference`]: what they are compared with; [`selected`] opens those of a
//!   command line.
//! - [`ComparisonSession`]: comparisons as they are made, round by round.
//! - [`ComparisonOutcome`]: the figures, with a [`Note`] for what they cannot be relied
//!   on for, and which limits were not checked.

mod clocks;
mod notes;
mod reference;
pub mod selected;
mod session;

use std::cell::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use instruments::drift::Span;
use sources::RtcSource;
use sources::rtc::{RtcEdge, Seconds, next_edge};

pub use clocks::{
    ClockComparison, ClockName, ComparedClocks, NotCompared, Reader, TscFrequency, TscSource,
};
pub use notes::{Note, Seems, StoodStill};
pub use reference::{ComparisonReference, Failure, ReferenceReport};
pub use session::{
    ClockPairSeries, ComparisonOutcome, ComparisonRound, ComparisonSession, NothingMeasured,
    PairReport, Unchecked,
};

/// Comparisons of a run with a reference nearby: behind 1 ms of jitter, 600
/// find a frequency within 1 ppm in a minute.
const WANTED: u32 = 600;

/// Time between comparisons with a reference nearby, from a short run to a long
/// one.
const NEAR: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Time between requests to somebody else's server.
const POLITE: Duration = Duration::from_secs(4);

/// From its second failure in a row on, a reference pauses for this many times
/// the wait for it: at first it takes a ninth of the others' time.
const PAUSE: u32 = 8;

/// How often that doubles at most: to a minute where the wait was a second.
const DOUBLINGS: u32 = 3;

/// Time between comparisons: as requested, or by the reference.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    requested: Option<Duration>,
    run: Duration,
}

impl Pace {
    /// For a run of that length.
    pub fn new(requested: Option<Duration>, run: Duration) -> Self {
        Self { requested, run }
    }

    /// A clock or server of our own.
    pub fn near(self) -> Duration {
        self.requested.unwrap_or_else(|| (self.run / WANTED).clamp(NEAR.0, NEAR.1))
    }

    /// chronyd's estimate changes with its polls.
    pub fn chronyd(self) -> Duration {
        self.requested.unwrap_or(NEAR.1)
    }

    /// A server at that address.
    pub fn server(self, address: IpAddr) -> Duration {
        if is_near(address) { self.near() } else { self.requested.unwrap_or(POLITE) }
    }
}

/// Whether an address is of this machine or a private network.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// How long a reference pauses that failed so many times in a row and was
/// `waited` for the last time. One lost reply is no reason to.
fn pause_after(failed_in_a_row: u32, waited: Duration) -> Duration {
    match failed_in_a_row {
        0 | 1 => Duration::ZERO,
        more => waited * (PAUSE << (more - 2).min(DOUBLINGS)),
    }
}

// The battery-backed clock as one that can be compared: by its last change of
// second, and CLOCK_MONOTONIC_RAW since.

/// The shortest run that has a few of its seconds.
const LEAST_RTC_TIME: Duration = Duration::from_secs(4);

/// Failures to see a second change in a row, after which it is given up.
const FAILURES: u32 = 3;

/// The RTC, and what is known of its seconds.
struct RtcAtEdges {
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
    fn new(rtc: RtcSource) -> Self {
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
    fn due(&self) -> Option<Instant> {
        (!self.is_given_up()).then(|| self.due.get())
    }

    /// Whether it was given up: it cannot be read, or its seconds stand still.
    fn is_given_up(&self) -> bool {
        self.failures.get() >= FAILURES
    }

    /// Waits for its next change of second, for some milliseconds where it is
    /// due, or else for up to a second.
    fn catch(&self) {
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
    fn show(&self, had: u64) -> u64 {
        self.is_shown.set(self.seen.get() > had);
        self.seen.get()
    }

    /// What it shows now, where it is to be shown.
    fn read(&self) -> Option<Span> {
        self.is_shown.get().then(|| self.span(self.rtc.now_ns()))?
    }

    /// What it showed when CLOCK_MONOTONIC_RAW showed `raw_ns`.
    fn span(&self, raw_ns: u64) -> Option<Span> {
        let (before, after) = self.last.get()?.clock_ns(raw_ns)?;
        Some(Span { before, after })
    }
}

#[cfg(test)]
mod tests;
