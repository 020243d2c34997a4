//! Experiments on a clock from inside and outside of a virtual machine.
//!
//! Each takes settings, says how far it is, and gives rows and checks; nothing
//! here prints.

mod agreement;
mod bench;
mod boot;
mod conformance;
mod cost;
mod drift;
mod in_process;
mod monotonic;
mod offset;
mod pages;
mod restore;
pub mod results;
mod run;
mod sample;
mod settings;
mod updates;

pub use boot::boot;
pub use in_process::{IN_PROCESS, measure_host_tsc, run_in_process};
pub use run::run;
pub use settings::{Experiment, LabError, Progress, Settings};
