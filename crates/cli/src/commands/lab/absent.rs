//! No virtual machine here: why, and what helps.

use lab::{Experiment, LabError};
use machine::MachineError;

use crate::error::CliError;

/// The kernel's word for a file that is not there.
const NO_SUCH_FILE: i32 = 2;
/// And for one that is not for us.
const NOT_PERMITTED: [i32; 2] = [1, 13];

/// What a person is told who has no KVM.
pub(super) fn told(error: &MachineError) -> CliError {
    CliError::Failed { cause: error.to_string(), remedy: remedy(error).into() }
}

/// What a person is told whose only experiment could not be made.
pub(super) fn not_made(experiment: Experiment, error: &LabError) -> CliError {
    let remedy = match error {
        LabError::NeedsKvm => "without --in-process, where there is /dev/kvm",
        LabError::Machine(MachineError::TimedOut { .. }) => "a longer --timeout",
        LabError::Machine(error) => remedy(error),
        _ => "`parachron lab conformance`, to see what this host's KVM does",
    };
    let cause = format!("{} could not be made: {error}", experiment.name());
    CliError::Failed { cause, remedy: remedy.into() }
}

/// What helps against `error`.
pub(super) fn remedy(error: &MachineError) -> &'static str {
    match error {
        MachineError::NoKvm(error) if error.errno() == NO_SUCH_FILE => {
            "`sudo modprobe kvm_amd` or `sudo modprobe kvm_intel`; where that fails, switch \
             virtualisation on in the firmware or, in a virtual machine, nested virtualisation \
             on its host"
        }
        MachineError::NoKvm(error) if NOT_PERMITTED.contains(&error.errno()) => {
            "`sudo usermod -aG kvm $USER`, and log in anew; in a container, hand it /dev/kvm"
        }
        MachineError::Lacks { .. } => "a host kernel that has it, or a later one",
        _ => "--in-process, which needs no /dev/kvm",
    }
}
