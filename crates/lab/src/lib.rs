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
mod sample;
mod session;
mod settings;
mod ticks;
mod tsc_offsets;
mod updates;

use std::time::Instant;

use crate::bench::LabBench;
use crate::results::ExperimentOutcome;

pub use session::{LabSession, SessionError};
pub use settings::{Experiment, LabError, LabProgress, Settings};

/// Runs one experiment on /dev/kvm.
///
/// # Errors
/// Why it could not run. A failed check is no error but part of the outcome.
pub fn run(
    experiment: Experiment,
    settings: &Settings,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentOutcome, LabError> {
    let bench = LabBench { settings, host_tsc: vmm::kvm::host_tsc()? };
    let started = Instant::now();
    let (table, checks) = match experiment {
        Experiment::Drift => crate::drift::run(&bench, progress),
        Experiment::Updates => crate::updates::run(&bench, progress),
        Experiment::Cost => crate::cost::run(&bench, progress),
        Experiment::Monotonic => crate::monotonic::run(&bench, progress),
        Experiment::Offset => crate::offset::run(&bench, progress),
        Experiment::Ticks => crate::ticks::run(&bench, progress),
        Experiment::Locks => crate::locks::run(&bench, progress),
        Experiment::Network => crate::network::run(&bench, progress),
        Experiment::Restore => crate::restore::run(&bench, progress),
        Experiment::Agreement => crate::agreement::run(&bench, progress),
        Experiment::Conformance => crate::conformance::run(&bench, progress),
    }?;
    let (experiment, seconds) = (experiment.name().to_owned(), started.elapsed().as_secs_f64());
    Ok(ExperimentOutcome { experiment, table, checks, seconds })
}
