//! A clock's frequency and offset against a reference, over a while.
//!
//! Two clocks are never read at one instant: each [`DriftReading`] only bounds
//! their difference, within a network's round trip or the few nanoseconds
//! between two reads. The stages:
//!
//! 1. [`series`]: readings become bounds on clock − reference. One that
//!    contradicts those before it and after it is an outlier and dropped;
//!    where all that follow contradict, a step is found and cut out.
//! 2. [`filter`]: a block keeps its quickest request and its quickest reply; all
//!    others waited in a queue and are dropped.
//! 3. [`theil_sen`]: the blocks' slope is the frequency error, a median of
//!    slopes with Sen's confidence interval.
//! 4. [`allan`]: how stable that is over which time.
//! 5. [`budget`]: whether that is good enough.
//!
//! A positive frequency error or offset is a clock that is fast or ahead, as
//! in chrony's reports.

pub mod allan;
pub mod budget;
pub mod filter;
mod lasting;
pub mod reading;
pub mod result;
pub mod series;
pub mod theil_sen;

pub use reading::{DriftReading, Nesting, Span};
pub use result::{Drift, DriftOffset, DriftStep, Frequency, RateChange};
pub use series::{Refused, Series};

#[cfg(test)]
mod tests;
