//! Experiments and statistics on any clock they are handed.
//!
//! Nothing here reads a clock, starts a thread or sleeps: readings are
//! arguments, so that a simulated clock of known error calibrates each
//! instrument.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

pub mod cost;
pub mod distribution;
pub mod drift;
pub mod figures;
pub mod granularity;
pub mod measurements;
pub mod offset;
pub mod order;
pub mod primes;
pub mod rate;
pub mod steps;
pub mod throughput;
