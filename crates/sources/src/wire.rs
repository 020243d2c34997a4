//! The formats of time in packets, as bytes: pure, without allocation.
//!
//! Formats in memory are in `pvclock`. Every decoder checks length, version and values, and its
//! error holds what was expected and what came.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]
#![forbid(unsafe_code)]

pub mod chronyd;
pub mod hosttime;
pub mod ntp;
