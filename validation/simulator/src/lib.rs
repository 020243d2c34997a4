#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod checks;
pub mod fault;
mod fleet;
mod guest;
mod kept;
mod kernel;
pub mod kernel_clock;
mod machine;
mod network;
pub mod oscillator;
pub mod outcome;
mod probe;
pub mod random;
pub mod scenario;
mod tally;
mod truth;
mod vmclock;
mod world;

pub use checks::{Promise, Violation};
pub use fleet::Simulation;
pub use outcome::{Fleet, SimulationOutcome};
pub use scenario::{Scenario, ScenarioCorrector};
