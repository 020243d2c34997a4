#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

pub mod cost;
pub mod distribution;
pub mod drift;
pub mod duration;
pub mod figures;
pub mod granularity;
pub mod latency;
pub mod measurements;
pub mod offset;
pub mod order;
pub mod rate;
pub mod steps;
