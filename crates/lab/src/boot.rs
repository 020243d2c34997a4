//! How long a machine takes to boot.

use std::time::Duration;

use host::Kind;

use crate::bench::{Bench, Maker};
use crate::sample::VCPU;
use crate::settings::{LabError, Settings};

/// From the start of one machine, with our kvm-clock, to the first report of
/// its guest.
///
/// # Errors
/// The machine does not start, or its guest does not report.
pub(crate) fn boot(settings: &Settings) -> Result<Duration, LabError> {
    let bench = Bench { settings, host_tsc: vmm::kvm::host_tsc()? };
    let machine = bench.start(Maker::Own(Kind::Kvm), settings.vcpus)?;
    machine.discover(VCPU)?;
    Ok(machine.started().elapsed())
}
