//! Finds the wrong clocks of a fleet without a reference: [`pair`] probes between nodes and
//! collects their samples, [`errormap`] computes the map.
#![forbid(unsafe_code)]

pub mod errormap;
pub mod pair;
