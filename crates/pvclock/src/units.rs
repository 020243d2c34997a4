//! Units of time as types, one type per meaning.
//!
//! | type | meaning |
//! | --- | --- |
//! | [`Nanos`], [`Hertz`], [`Ticks`], [`UnixTime`] | a bare number with its unit |
//! | [`Bracket`] | one clock's reading between two of another's |
//! | [`ClockPair`] | CLOCK_MONOTONIC and CLOCK_REALTIME at one moment |
//! | [`Interval`] | a quantity is at least this, at most that |
//! | [`agreement`](fn@agreement) | where most of several intervals agree |
//! | [`TimeReading`] | a source's time between two stamps, with its error |
//! | [`OffsetBound`] | a source minus CLOCK_REALTIME, with its bound |
//! | [`calendar`] | the Gregorian calendar, in both directions |
//! | [`random`] | SplitMix64: numbers that repeat with their seed, for simulations and tests |
//!
//! ```
//! use pvclock::units::{ClockPair, Hertz, Interval, TimeReading, calendar};
//!
//! assert_eq!(Hertz(2_450_000_000).to_string(), "2450000000 Hz");
//! assert_eq!(calendar::date(20_778).year, 2026);
//!
//! // A source that showed 1500 ± 100 ns, read between 1000 and 2000 ns of ours.
//! let at = |ns| ClockPair { monotonic_ns: ns, realtime_ns: ns };
//! let utc_ns = Interval::around(1_500, 100);
//! let reading =
//!     TimeReading { before: at(1_000), utc_ns, shown_ns: (1_500, 1_500), cross_timestamp: None, after: at(2_000) };
//! let offset = reading.offset()?;
//! assert_eq!((offset.offset_ns, offset.bound_ns), (0, 600));
//! # Ok::<(), pvclock::units::OffsetError>(())
//! ```
#![forbid(unsafe_code)]

mod agreement;
pub mod calendar;
mod interval;
pub mod random;
mod reading;

use core::fmt;

pub use agreement::{AgreedValues, IntervalEnd, agreement};
pub use interval::Interval;
pub use reading::{ClockPair, CrossTimestamp, OffsetBound, OffsetError, TimeReading};

/// One clock's reading, taken between two of another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The outer clock before.
    pub before: u64,
    /// The inner clock.
    pub inner: u64,
    /// The outer clock after.
    pub after: u64,
}

impl Bracket {
    /// How far the outer clock went meanwhile; `None` where it went back,
    /// and so bounds nothing.
    pub fn width(&self) -> Option<u64> {
        self.after.checked_sub(self.before)
    }

    /// The first of `tries` brackets that is at most `enough` wide, else the
    /// tightest of them: an interrupt between the reads widens a bracket, and
    /// the next one is taken without. `None` when `take` yields none, or none
    /// whose outer clock kept its order.
    pub fn tightest(
        tries: u32,
        enough: u64,
        mut take: impl FnMut() -> Option<Self>,
    ) -> Option<Self> {
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..tries {
            let bracket = take()?;
            let Some(width) = bracket.width() else { continue };
            if best.is_none_or(|(least, _)| width < least) {
                best = Some((width, bracket));
            }
            if width <= enough {
                break;
            }
        }
        best.map(|(_, bracket)| bracket)
    }
}

/// A leap second, at the end of a UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeapSecond {
    /// 23:59:60 (STA_INS).
    Inserted,
    /// No 23:59:59 (STA_DEL).
    Deleted,
}

/// A field that contains what none of its writers can have meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// What it is a field of: "a frame".
    pub of: &'static str,
    /// Its name.
    pub field: &'static str,
    /// What it contains.
    pub found: u64,
}

impl Malformed {
    /// The field of that name, and its contents.
    pub fn new(of: &'static str, field: &'static str, found: u64) -> Self {
        Self { of, field, found }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: its {} is {:#x}", self.of, self.field, self.found)
    }
}

impl core::error::Error for Malformed {}

/// Nanoseconds, as a time on some clock or as a duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Cycles a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hertz(pub u64);

/// A counter's value, kept unconverted: the cheapest time stamp there is.
///
/// It is converted when the time is needed (`TimeReader::nanos_at` of pvclock),
/// so that a program that stamps often and evaluates seldom pays for the
/// counter alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// Time since 1970-01-01 00:00 UTC without leap seconds, in ns. Not before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub Nanos);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}
