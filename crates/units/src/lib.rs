#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod bracket;
pub mod calendar;
mod leap;
mod malformed;
mod quantity;
mod reading;

pub use bracket::Bracket;
pub use leap::LeapSecond;
pub use malformed::Malformed;
pub use quantity::{Hertz, Nanos, Ticks, UnixTime};
pub use reading::{ClockPair, CrossTimestamp, OffsetBound, OffsetError, TimeInterval, TimeReading};

#[cfg(test)]
extern crate std;
