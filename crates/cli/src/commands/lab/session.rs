//! Runs the experiments and prints their report.

use std::process::ExitCode;
use std::time::Duration;

use lab::results::CheckTally;
use lab::{LabSession, SessionError};

use super::options::{LabPlan, RunOptions};
use super::remedies;
use super::text::{self, Extent};
use crate::commands::bench::report::MachineIdentity;
use crate::commands::lab::LabReport;
use crate::error::{COULD_NOT, CliError};
use crate::output::TerminalProgress;
use crate::output::{self, Format};

/// Exit code when a check failed.
const FAILED: u8 = 1;

pub(super) fn run(plan: &LabPlan) -> Result<ExitCode, CliError> {
    let report = report(&plan.session).map_err(|error| remedies::session(&error))?;
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
}
