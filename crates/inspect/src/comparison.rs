//! Clocks compared with references for as long as a caller likes, and what
//! their figures together show. Reads clocks and sets none; names and figures
//! go in and out, words are the caller's.
//!
//! - [`ClockName`], [`Clocks`]: the clocks that are measured.
//! - [`Reference`]: what they are compared with; [`selected`] opens those of a
//!   command line.
//! - [`Session`]: comparisons as they are made, round by round.
//! - [`Outcome`]: the figures, with a [`Note`] for what they cannot be relied
//!   on for, and which limits were not checked.

mod clock_name;
mod clocks;
mod notes;
mod outcome;
mod pace;
mod pair;
mod reference;
mod reference_names;
mod rtc;
mod scale;
pub mod selected;
mod session;
pub mod stopwatch;

pub use clock_name::ClockName;
pub use clocks::{Clocks, Compared, NotMeasured, Reader, TscFrequency, TscSource};
pub use notes::{Note, Seems, StoodStill};
pub use outcome::{Outcome, Unchecked};
pub use pace::Pace;
pub use pair::{Pair, PairReport};
pub use reference::{Failure, Reference, ReferenceReport};
pub use session::{NothingMeasured, Round, Session};

#[cfg(test)]
mod tests;
