//! Host and guest code in one process, for machines without /dev/kvm: the
//! provider and the devices answer the guest's own code by plain calls.
//!
//! What is lost is the hardware between the two: exits, other vCPUs, the
//! guest's own time. Experiments that are about nothing else are not made.

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

/// Samples of the host's clocks, and from one to the next: 50 ms in all.
const SAMPLES: u32 = 50;
const APART: Duration = Duration::from_millis(1);

/// The experiments that are made here, in the order they run.
pub const IN_PROCESS: [Experiment; 3] =
    [Experiment::Conformance, Experiment::Cost, Experiment::Drift];

/// Makes one experiment in this process, on a host of this TSC rate.
///
/// # Errors
/// [`LabError::NeedsKvm`], or it could not be made at all; what only failed is
/// in the outcome.
pub fn run_in_process(
    experiment: Experiment,
    settings: &Settings,
    host_tsc: Hertz,
    progress: &mut dyn Progress,
) -> Result<Outcome, LabError> {
    let bench = Bench { settings, host_tsc };
    timed(|| make(experiment, &bench, progress))
}

fn make(
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

/// The rate of this host's TSC by its own clock, where there is no KVM to say.
///
/// # Errors
/// The clocks make no rate.
pub fn measure_host_tsc() -> Result<Hertz, LabError> {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let (reading, cycles) = host_clock::read_with_width();
        // In ns at 1 GHz: an upper bound for every TSC there is.
        samples.push(Sample { reading, width: Nanos(cycles) });
        std::thread::sleep(APART);
    }
    Ok(calibrate(&samples)?.frequency)
}

#[cfg(test)]
mod tests;
