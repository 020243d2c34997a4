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

pub use clock_name::ClockName;
pub use clocks::{ClockComparison, ComparedClocks, NotCompared, Reader, TscFrequency, TscSource};
pub use notes::{Note, Seems, StoodStill};
pub use outcome::{ComparisonOutcome, Unchecked};
pub use pace::Pace;
pub use pair::{ClockPairSeries, PairReport};
pub use reference::{ComparisonReference, Failure, ReferenceReport};
pub use session::{ComparisonRound, ComparisonSession, NothingMeasured};

#[cfg(test)]
mod tests;
