#![doc = include_str!("../README.md")]

mod agreement;
mod bench;
mod conformance;
mod cost;
mod drift;
mod locks;
mod monotonic;
mod network;
mod offset;
mod pages;
mod restore;
pub mod results;
mod run;
mod sample;
mod session;
mod settings;
mod ticks;
mod tsc_offsets;
mod updates;

pub use run::run;
pub use session::{LabSession, SessionError};
pub use settings::{Experiment, LabError, LabProgress, Settings};
