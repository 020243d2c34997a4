//! Units of time as types: one type for one meaning, on the lowest floor.
//!
//! ```
//! use units::{Hertz, Nanos, calendar};
//!
//! assert_eq!(Hertz(2_450_000_000).to_string(), "2450000000 Hz");
//! assert_eq!(Nanos(5).to_string(), "5 ns");
//! assert_eq!(calendar::date(20_778).year, 2026);
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod bracket;
pub mod calendar;
mod quantity;
mod reading;

pub use bracket::Bracket;
pub use quantity::{Hertz, Nanos, Ticks, UnixTime};
pub use reading::OffsetBound;
