//! The references of the command line, with remedies where one cannot be read.

use daemon::advice::phc::unknown_scale;
use inspect::comparison::selected::{SelectError, Wanted, best, references};
use inspect::comparison::{ComparisonReference, Pace};

use crate::error::CliError;

/// Those that are wanted.
pub(super) fn select(
    wanted: &Wanted<'_>,
    pace: Pace,
) -> Result<Vec<ComparisonReference>, CliError> {
    references(wanted, pace).map_err(failed)
}

/// The best there is, and a note where it is not what a person may expect.
pub(super) fn select_best(pace: Pace) -> (ComparisonReference, Option<String>) {
    let (reference, unread) = best(pace);
    let note = unread.map(|(path, why)| {
        format!(
            "Compared with CLOCK_MONOTONIC_RAW, because {}, which shows the host's time, cannot \
             be read: {why}.",
            path.display()
        )
    });
    (reference, note)
}

fn failed(error: SelectError) -> CliError {
    let remedy = match &error {
        SelectError::Scale(phc, why) => {
            let (cause, remedy) = unknown_scale(phc, why);
            return CliError::Failed { cause, remedy };
        }
        SelectError::Ntp(_) => {
            "pass --ntp HOST or HOST:PORT, with a name or address that this machine can resolve"
        }
        SelectError::Phc(..) => {
            "run `ls /dev/ptp*` to list the clocks; under KVM enable CONFIG_PTP_1588_CLOCK_KVM in \
             the guest's kernel; use sudo if the device is not readable"
        }
        SelectError::NoHostsClock => {
            "run `modprobe ptp_kvm` in a guest of KVM, or pass --phc with one of `ls /dev/ptp*`"
        }
        SelectError::VmClock(..) => {
            "use Linux 6.13 or later with CONFIG_PTP_1588_CLOCK_VMCLOCK, on a host that offers the \
             device; use sudo if the device is not readable"
        }
        SelectError::Duplicate(_) => sources::DUPLICATE_REMEDY,
        _ => "use another reference, such as --ntp HOST",
    };
    CliError::Failed { cause: error.to_string(), remedy: remedy.into() }
}
