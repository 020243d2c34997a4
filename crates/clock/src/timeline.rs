//! The arithmetic of the clock, as pure code: readings of a system in, pieces
//! of time out. No clock is read here, so tests hand in any.
//!
//! From the ground up: [`segment`] and [`sample`] are integers and their
//! bounds, [`steering`] makes segments of samples, [`maintenance`] adds the
//! time of day ([`realtime`]) and its error ([`bound`]), and [`published`]
//! hands the result to readers. It is public for those who bring a counter
//! and a system of their own.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

pub mod bound;
pub mod maintenance;
pub mod published;
pub mod realtime;
pub mod sample;
pub mod segment;
pub mod steering;

// Hours of simulated time, which an interpreter would take as long for.
#[cfg(all(test, not(miri)))]
mod simulation;
