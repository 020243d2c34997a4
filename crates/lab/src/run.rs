//! One experiment after the other.

use std::time::Instant;

use crate::bench::Bench;
use crate::results::{Check, Findings, Outcome};
use crate::settings::{Experiment, LabError, Progress, Settings};

/// What an experiment gives.
pub(crate) type Found = (Findings, Vec<Check>);

/// Makes one experiment on /dev/kvm.
///
/// # Errors
/// It could not be made at all; what only failed is in the outcome.
pub fn run(
    experiment: Experiment,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Outcome, LabError> {
    let bench = Bench { settings, host_tsc: vmm::kvm::host_tsc()? };
    timed(|| make(experiment, &bench, progress))
}

/// What `make` finds, and how long it took.
pub(crate) fn timed(make: impl FnOnce() -> Result<Found, LabError>) -> Result<Outcome, LabError> {
    let started = Instant::now();
    let (findings, checks) = make()?;
    Ok(Outcome { findings, checks, seconds: started.elapsed().as_secs_f64() })
}

fn make(
    experiment: Experiment,
    bench: &Bench<'_>,
    progress: &mut dyn Progress,
) -> Result<Found, LabError> {
    match experiment {
        Experiment::Drift => crate::drift::run(bench, progress),
        Experiment::Updates => crate::updates::run(bench, progress),
        Experiment::Cost => crate::cost::run(bench, progress),
        Experiment::Monotonic => crate::monotonic::run(bench, progress),
        Experiment::Offset => crate::offset::run(bench, progress),
        Experiment::Restore => crate::restore::run(bench, progress),
        Experiment::Agreement => crate::agreement::run(bench, progress),
        Experiment::Conformance => crate::conformance::run(bench, progress),
    }
}
