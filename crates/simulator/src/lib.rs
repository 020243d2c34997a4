#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod checks;
mod daemons;
pub mod fault;
pub mod file;
mod fleet;
mod guest;
mod kept;
mod kernel;
mod limits;
mod machine;
mod network;
pub mod oscillator;
pub mod outcome;
mod plan;
mod probe;
pub mod quantity;
pub mod random;
mod regression;
pub mod report;
mod run;
pub mod scenario;
pub mod scrape;
pub mod seed;
mod shrink;
mod tally;
mod truth;
mod vmclock;
mod world;

pub use checks::{Promise, Violation};
pub use fleet::Simulation;
pub use outcome::{Fleet, SimulationOutcome};
pub use scenario::{Impossible, Scenario, ScenarioCorrector};
pub use scrape::SimulatedScrape;
pub use shrink::{replay, shrink};
pub use tally::{Look, band_ns};
