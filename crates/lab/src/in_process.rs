//! Host and guest code in one process, for machines without /dev/kvm: the
//! guest's own code calls the provider and the devices directly.
//!
//! Exits, several vCPUs and the guest's own time need hardware: experiments on
//! nothing else do not run here.

mod board;
mod conformance;
mod cost;
mod drift;
mod guest_code;
mod time;

use std::time::Duration;

use host::{Sample, calibrate};
use pvclock::{Hertz, Nanos};
use vmm::host_clock;

use crate::bench::Bench;
use crate::results::Outcome;
use crate::run::{Found, timed};
use crate::settings::{Experiment, LabError, Progress, Settings};

/// Samples of the host's clocks and the time between two: 50 ms in total.
const SAMPLES: u32 = 50;
const INTERVAL: Duration = Duration::from_millis(1);

/// The experiments that run in process, in the order they run.
pub(crate) const IN_PROCESS: [Experiment; 3] =
    [Experiment::Conformance, Experiment::Cost, Experiment::Drift];

/// Runs one experiment in this process, on a host of this TSC frequency.
///
/// # Errors
/// [`LabError::NeedsKvm`], or why it could not run. A failed check is no error
/// but part of the outcome.
pub(crate) fn run_in_process(
    experiment: Experiment,
    settings: &Settings,
    host_tsc: Hertz,
    progress: &mut dyn Progress,
) -> Result<Outcome, LabError> {
    let bench = Bench { settings, host_tsc };
    timed(|| run(experiment, &bench, progress))
}

fn run(
    experiment: Experiment,
    bench: &Bench<'_>,
    progress: &mut dyn Progress,
) -> Result<Found, LabError> {
    match experiment {
        Experiment::Drift => drift::run(bench, progress),
        Experiment::Cost => cost::run(bench, progress),
        Experiment::Conformance => conformance::run(bench, progress),
        _ => Err(LabError::NeedsKvm),
    }
}

/// The frequency of this host's TSC by its own clock, without KVM.
///
/// # Errors
/// The samples of the clocks give no frequency.
pub(crate) fn measure_host_tsc() -> Result<Hertz, LabError> {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let (reading, cycles) = host_clock::read_with_width();
        // In ns at 1 GHz: an upper bound for every TSC there is.
        samples.push(Sample { reading, width: Nanos(cycles) });
        std::thread::sleep(INTERVAL);
    }
    Ok(calibrate(&samples)?.frequency)
}

#[cfg(test)]
mod tests;
