//! Which clocks of a fleet are off, by how much at least and at most, and who contradicts
//! the others: from probes between pairs of nodes, without any reference. Pure.
//!
//! A probe's four times bound by how much one clock is ahead of another; a packet takes time,
//! and never less than none. All bounds together are difference constraints, whose shortest
//! ways bound each clock against the fleet's median. Constraints that no clocks can satisfy
//! prove that somebody answers wrongly; and who, if only one does and only one explains them.
//! What nodes answer and nothing contradicts is taken to be true.
//!
//! ```
//! use fleet_map::errormap::{MapFinding, Probe, Samples, Settings, solve};
//!
//! let mut samples = Samples::default();
//! // Three clocks 200 us apart on the wire; c is 5 ms ahead.
//! for (from, to, ahead_ns) in [("a", "b", 0), ("b", "c", 5_000_000), ("a", "c", 5_000_000)] {
//!     let t1_ns = 1_000_000_000;
//!     let t2_ns = t1_ns + 200_000 + ahead_ns;
//!     let (t3_ns, t4_ns) = (t2_ns + 10_000, t1_ns + 410_000);
//!     let probe = Probe { from: from.into(), to: to.into(), t1_ns, t2_ns, t3_ns, t4_ns };
//!     samples.add(&probe.sample()?)?;
//! }
//! let settings = Settings { drift_ppm: 0.0, ..Settings::default() };
//! let map = solve(&samples, &settings);
//! let [MapFinding::Off { node, ahead }] = &map.findings[..] else { panic!("{:?}", map.findings) };
//! assert_eq!((node.as_str(), ahead.min_ns, ahead.max_ns), ("c", 4_800_000, 5_200_000));
//! # Ok::<(), fleet_map::errormap::Refused>(())
//! ```
//!
//! What it rests on, and what it cannot see: docs/decisions/fleets.md.

mod estimate;
mod graph;
mod intervals;
mod liars;
mod map;
mod median;
mod sample;
mod samples;

pub use map::{AheadBounds, Link, LoopStep, Map, MapFinding, Node, OffsetInterval, solve};
pub use sample::{Claim, Invalid, LONGEST_NS, Probe, ProbeSample};
pub use samples::{MOST_NODES, MOST_PAIRS, Refused, SAMPLES_OF_A_PAIR, Samples, Settings};
