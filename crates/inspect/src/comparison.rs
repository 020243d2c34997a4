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
mod pace;
mod reference;
mod rtc;
pub mod selected;
mod session;

pub use clocks::{
    ClockComparison, ClockName, ComparedClocks, NotCompared, Reader, TscFrequency, TscSource,
};
pub use notes::{Note, Seems, StoodStill};
pub use pace::Pace;
pub use reference::{ComparisonReference, Failure, ReferenceReport};
pub use session::{
    ClockPairSeries, ComparisonOutcome, ComparisonRound, ComparisonSession, NothingMeasured,
    PairReport, Unchecked,
};

#[cfg(test)]
mod tests;
