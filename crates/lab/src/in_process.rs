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

use instruments::rate::{Pair, rate};
use pvclock::Hertz;
use pvclock::counter::{Counter, Tsc};
use vmm::host_clock;

use crate::bench::Bench;
use crate::results::Outcome;
use crate::run::{Found, timed};
use crate::settings::{Experiment, LabError, Progress, Settings};

/// Tries of which the tightest counts, and the span between the two ends.
const TRIES: u32 = 25;
const SPAN: Duration = Duration::from_millis(50);

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

/// The rate of this host's TSC by its own clock, for a host without KVM.
///
/// # Errors
/// [`LabError::NoTscRate`].
pub fn measure_host_tsc() -> Result<Hertz, LabError> {
    let pair = || Pair {
        before_ns: host_clock::boot().0,
        tsc: Tsc.read_ordered(),
        after_ns: host_clock::boot().0,
    };
    let first = Pair::tightest(TRIES, pair);
    std::thread::sleep(SPAN);
    let last = Pair::tightest(TRIES, pair);
    let measured = rate(first, last, 1).ok_or(LabError::NoTscRate { first, last })?;
    Ok(Hertz(measured.hz.round() as u64))
}

#[cfg(test)]
mod tests;
