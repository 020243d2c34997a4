//! What to do if the lab cannot run.

use lab::{LabError, SessionError};
use vmm::MachineError;

use crate::error::CliError;

const ENOENT: i32 = 2;
const EPERM_EACCES: [i32; 2] = [1, 13];

const SEE_KVM: &str = "run `parachron lab conformance` to see what this host's KVM supports";

/// There is no report.
pub(super) fn session(error: &SessionError) -> CliError {
    let remedy = match error {
        SessionError::NoKvm(error)
        | SessionError::NoBoot(LabError::Machine(error))
        | SessionError::NotRun { error: LabError::Machine(error), .. } => of_machine(error),
        _ => SEE_KVM,
    };
    CliError::Failed { cause: error.to_string(), remedy: remedy.into() }
}

fn of_machine(error: &MachineError) -> &'static str {
    match error {
        MachineError::NoKvm(error) if error.errno() == ENOENT => {
            "run `sudo modprobe kvm_amd` or `sudo modprobe kvm_intel`; if that fails, enable \
             virtualisation in the firmware or, in a virtual machine, nested virtualisation on \
             its host"
        }
        MachineError::NoKvm(error) if EPERM_EACCES.contains(&error.errno()) => {
            "run `sudo usermod -aG kvm $USER`, then log in again; in a container, pass /dev/kvm to it"
        }
        MachineError::Unsupported { .. } => {
            "boot a host kernel with that capability; `uname -r` shows the present one"
        }
        MachineError::TimedOut { .. } => "use a longer --timeout",
        MachineError::Memory { .. } | MachineError::Thread(_) => {
            "use fewer --vcpus, or raise the limits (`ulimit -a`)"
        }
        MachineError::GuestFailed { .. }
        | MachineError::Flooded { .. }
        | MachineError::InvalidReply { .. } => {
            "run it again; if it fails again, report it as a bug of parachron, with this message"
        }
        _ => SEE_KVM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_remedy() {
        let opened = |errno| MachineError::NoKvm(std::io::Error::from_raw_os_error(errno).into());
        for (error, helps) in [
            (opened(2), "modprobe kvm_amd"),
            (opened(13), "usermod -aG kvm"),
            (opened(16), "parachron lab conformance"),
            (
                MachineError::Unsupported { what: "KVM_CAP_X86_MSR_FILTER" },
                "host kernel with that capability",
            ),
        ] {
            let cause = error.to_string();
            assert!(of_machine(&error).contains(helps), "{cause}: {}", of_machine(&error));
        }
        assert_eq!(opened(2).to_string(), "/dev/kvm: No such file or directory (os error 2)");
    }
}
