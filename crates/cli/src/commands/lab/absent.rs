//! No virtual machine here: why, and what helps.

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
        _ => "another host kernel, or as root",
    }
}
