//! Modelled fleets, whose truth is known; probes between nodes; and the program.

mod any_bytes;
mod chrony;
#[allow(dead_code, reason = "the main workspace's tests use all of it")]
#[path = "../../../../crates/cli/tests/cli/chronyd.rs"]
mod chronyd;
mod hostile;
mod interleaved;
mod model;
mod naming;
mod program;
mod truth;
