//! The arithmetic of the clock, as pure code: readings of a system in, segments
//! of time out. It reads no clock, so tests can supply any.
//!
//! From the ground up: [`segment`] and [`sample`] are integers and their
//! bounds, [`steering`] makes segments of samples, [`maintenance`] adds the
//! time of day ([`realtime`]) and its error ([`bound`]) in a [`view`], and
//! [`published`] passes that to readers. It is public for programs with a
//! counter and a system of their own.
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
pub mod view;

// Hours of simulated time: too slow under an interpreter.
#[cfg(all(test, feature = "std", not(miri)))]
mod tests;
