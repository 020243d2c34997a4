//! Experiments and statistics on any clock they are handed.
//!
//! Nothing here reads a clock, starts a thread or sleeps: readings are
//! arguments, so that a simulated clock of known error calibrates each
//! instrument.

pub mod measurements;
