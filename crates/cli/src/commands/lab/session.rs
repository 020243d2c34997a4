//! Runs the experiments and prints their report.

use std::process::ExitCode;
use std::time::Duration;

use lab::results::CheckTally;
use lab::{LabError, LabSession, SessionError};
use vmm::MachineError;

use super::options::{LabPlan, RunOptions};
use super::text::{self, Extent};
use crate::commands::bench::report::MachineIdentity;
use crate::commands::lab::LabReport;
use crate::error::{COULD_NOT, CliError};
use crate::output::{self, Format, TerminalProgress};

/// Exit code when a check failed.
const FAILED: u8 = 1;

pub(super) fn run(plan: &LabPlan) -> Result<ExitCode, CliError> {
    let report = report(&plan.session).map_err(|error| failure(&error))?;
    print(&report, &plan.run)?;
    Ok(exit_code(&report))
}

fn report(session: &LabSession) -> Result<LabReport, SessionError> {
    let length = session.length();
    let mut bar = SessionProgress { bar: TerminalProgress::new(length), length };
    let lab = session.run(&mut bar)?;
    Ok(LabReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: MachineIdentity::this(),
        lab,
    })
}

fn print(report: &LabReport, run: &RunOptions) -> Result<(), CliError> {
    let text = match run.format {
        Format::Json => output::json_document(report)?,
        Format::Text => {
            let colours = run.output.is_none() && output::colours();
            let extent = if run.verbose { Extent::Whole } else { Extent::Short };
            text::render(report, extent, colours)
        }
    };
    match &run.output {
        Some(path) => output::file(path, &text),
        None => output::text(&text),
    }
}

/// An experiment could not run or measured nothing, or a check failed, or all is well.
fn exit_code(report: &LabReport) -> ExitCode {
    let measured_nothing = report.lab.experiments.iter().map(CheckTally::from_outcome);
    let mut measured_nothing =
        measured_nothing.filter(|tally| tally.not_measured > 0 && tally.passed + tally.failed == 0);
    if !report.lab.not_run.is_empty() || measured_nothing.next().is_some() {
        ExitCode::from(COULD_NOT)
    } else if CheckTally::total(&report.lab).failed > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

/// Shows how far the session is.
struct SessionProgress {
    bar: TerminalProgress,
    length: Duration,
}

impl lab::LabProgress for SessionProgress {
    fn step(&mut self, what: &str, done: f64) {
        self.bar.show_at(self.length.mul_f64(done), what);
    }
}

const ENOENT: i32 = 2;
const EPERM_EACCES: [i32; 2] = [1, 13];

const SEE_KVM: &str = "run `parachron lab conformance` to see what this host's KVM supports";

/// There is no report.
fn failure(error: &SessionError) -> CliError {
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
    use lab::results::Verdict;

    use super::*;
    use crate::commands::lab::tests::report as example;

    #[test]
    fn a_failed_check_fails_the_run_and_one_not_measured_does_not() {
        // In the example a check failed, one was not measured, and an experiment could not run.
        let mut report = example();
        assert_eq!(exit_code(&report), ExitCode::from(2));
        report.lab.not_run.clear();
        assert_eq!(exit_code(&report), ExitCode::from(1));
        let not_measured = || Verdict::NotMeasured("the host was busy".to_owned());
        let checks = report.lab.experiments.iter_mut().flat_map(|outcome| &mut outcome.checks);
        for check in checks.filter(|check| check.verdict == Verdict::Failed) {
            check.verdict = not_measured();
        }
        let has_passed = |outcome: &lab::results::ExperimentOutcome| {
            outcome.checks.iter().any(|check| check.verdict == Verdict::Passed)
        };
        report.lab.experiments.retain(has_passed);
        assert_eq!(exit_code(&report), ExitCode::SUCCESS);
        for check in &mut report.lab.experiments[0].checks {
            check.verdict = not_measured();
        }
        assert_eq!(exit_code(&report), ExitCode::from(2), "an experiment measured nothing");
    }

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
