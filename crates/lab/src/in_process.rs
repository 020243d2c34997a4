//! Host and guest code in one process, for machines without /dev/kvm: the
//! guest's own code calls the provider and the devices directly.
//!
//! Exits, several vCPUs and the guest's own time need hardware: experiments on
//! nothing else do not run here.

mod cost;
mod drift;
pub(crate) mod guest_code;
pub(crate) mod time;
pub(crate) mod vm;

use std::time::Duration;

use instruments::rate::{Pair, rate};
use pvclock::Hertz;
use pvclock::counter::{Counter, Tsc};
use vmm::host_clock;

use crate::bench::Bench;
use crate::results::Outcome;
use crate::run::timed;
use crate::settings::{Experiment, LabError, Progress, Settings};

/// Tries of which the tightest counts, and the span between the two ends.
const TRIES: u32 = 25;
const SPAN: Duration = Duration::from_millis(50);

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
    timed(|| match experiment {
        Experiment::Drift => drift::run(&bench, progress),
        Experiment::Cost => cost::run(&bench, progress),
        Experiment::Conformance => crate::conformance::in_process(&bench, progress),
        _ => Err(LabError::NeedsKvm),
    })
}

/// The frequency of this host's TSC by its own clock, without KVM.
///
/// # Errors
/// [`LabError::NoTscRate`].
pub(crate) fn measure_host_tsc() -> Result<Hertz, LabError> {
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
