#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

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

#[cfg(test)]
extern crate std;
