#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod distance;
mod estimate;
mod graph;
mod intervals;
mod liars;
mod map;
mod roughly;
mod sample;
mod samples;

pub use map::{Ahead, Finding, Interval, Link, Map, Node, Step, solve};
pub use sample::{Claim, Invalid, LONGEST_NS, Probe, Sample};
pub use samples::{MOST_NODES, MOST_PAIRS, Refused, SAMPLES_OF_A_PAIR, Samples, Settings};
