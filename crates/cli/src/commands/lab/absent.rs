//! No virtual machine here: why, and what helps.

use lab::{Experiment, LabError};
use vmm::MachineError;

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
        LabError::Machine(error) => remedy(error),
        _ => "`parachron lab conformance`, to see what this host's KVM does",
    };
    let cause = format!("{} could not be made: {error}", experiment.name());
    CliError::Failed { cause, remedy: remedy.into() }
}

/// What a person is told whose machine did not start.
pub(super) fn no_boot(error: &LabError) -> CliError {
    let remedy = match error {
        LabError::Machine(error) => remedy(error),
        _ => "--in-process, which needs no /dev/kvm",
    };
    CliError::Failed { cause: format!("the guest did not start: {error}"), remedy: remedy.into() }
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
        MachineError::TimedOut { .. } => "a longer --timeout",
        MachineError::Memory { .. } | MachineError::Thread(_) => {
            "fewer --vcpus, or other limits (`ulimit -a`)"
        }
        MachineError::Died { .. }
        | MachineError::Flooded { .. }
        | MachineError::Nonsense { .. } => {
            "it again; where it stays so, report it with this message: the guest is ours"
        }
        MachineError::NoKvm(_) => "--in-process, for drift, cost and conformance without /dev/kvm",
        _ => "`parachron lab conformance`, to see what this host's KVM does",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_has_its_remedy() {
        let opened = |errno| MachineError::NoKvm(std::io::Error::from_raw_os_error(errno).into());
        for (error, cause, helps) in [
            (opened(2), "/dev/kvm: No such file or directory (os error 2)", "modprobe kvm_amd"),
            (opened(13), "/dev/kvm: Permission denied (os error 13)", "usermod -aG kvm"),
            (opened(16), "/dev/kvm: Device or resource busy (os error 16)", "--in-process"),
            (
                MachineError::Lacks { what: "KVM_CAP_X86_MSR_FILTER" },
                "KVM here lacks KVM_CAP_X86_MSR_FILTER",
                "a later one",
            ),
        ] {
            assert_eq!(told(&error).to_string(), cause);
            assert!(remedy(&error).contains(helps), "{cause}: {}", remedy(&error));
        }
    }
}
