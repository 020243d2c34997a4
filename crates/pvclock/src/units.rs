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
mod bracket;
pub mod calendar;
mod interval;
mod leap;
mod malformed;
mod quantity;
pub mod random;
mod reading;

pub use agreement::{AgreedValues, IntervalEnd, agreement};
pub use bracket::Bracket;
pub use interval::Interval;
pub use leap::LeapSecond;
pub use malformed::Malformed;
pub use quantity::{Hertz, Nanos, Ticks, UnixTime};
pub use reading::{ClockPair, CrossTimestamp, OffsetBound, OffsetError, TimeReading};
