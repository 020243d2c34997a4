//! One run of the lab: the experiments in turn, then the report.

use std::process::ExitCode;
use std::time::Duration;

use lab::results::{RanOn, Report};
use lab::{Experiment, Progress as _, Settings};

use super::format::Format;
use super::options::{Run, Tuning};
use super::report::{LabReport, NotMade, Tally};
use super::{absent, csv, junit, tap, text};
use crate::commands::bench::report::Machine;
use crate::error::{COULD_NOT, CliError};
use crate::output;
use crate::output::progress::Progress;

/// Exit code when a check failed.
const FAILED: u8 = 1;

/// What was asked for.
pub(super) struct Order<'a> {
    pub(super) experiments: Vec<Experiment>,
    pub(super) tuning: Tuning,
    pub(super) run: &'a Run,
}

impl<'a> Order<'a> {
    pub(super) fn one(experiment: Experiment, tuning: Tuning, run: &'a Run) -> Self {
        Self { experiments: vec![experiment], tuning, run }
    }

    /// Makes the experiments and prints what they found.
    pub(super) fn carry_out(&self) -> Result<ExitCode, CliError> {
        let report = self.make()?;
        self.print(&report)?;
        Ok(exit_code(&report))
    }

    fn make(&self) -> Result<LabReport, CliError> {
        let host_tsc = machine::kvm::host_tsc().map_err(|error| absent::told(&error))?;
        let mut settings = self.tuning.settings.clone();
        if let Some(told) = self.tuning.told_hz {
            settings.told_over_true = told as f64 / host_tsc.0 as f64;
        }
        let mut progress = Bar::new(&self.experiments, &settings);
        let mut lab = Report {
            ran_on: RanOn::Kvm,
            host_tsc_hz: host_tsc.0,
            boot_ms: None,
            experiments: Vec::new(),
        };
        let mut not_made = Vec::new();
        for &experiment in &self.experiments {
            progress.begin(experiment);
            match lab::run(experiment, &settings, &mut progress) {
                Ok(outcome) => lab.experiments.push(outcome),
                Err(error) => not_made
                    .push(NotMade { experiment: experiment.name().into(), why: error.to_string() }),
            }
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(LabReport { version, machine: Machine::this(), lab, not_made })
    }

    fn print(&self, report: &LabReport) -> Result<(), CliError> {
        let text = match self.run.format {
            Format::Json => output::json_document(report)?,
            Format::Csv => csv::render(report),
            Format::Tap => tap::render(report),
            Format::Junit => junit::render(report),
            Format::Markdown => text::render(report, output::Format::Markdown, false),
            Format::Text => {
                let colours = self.run.output.is_none() && output::colours();
                text::render(report, output::Format::Text, colours)
            }
        };
        match &self.run.output {
            Some(path) => output::file(path, &text),
            None => output::text(&text),
        }
    }
}

/// Not all could be made, or a check failed, or all is well.
fn exit_code(report: &LabReport) -> ExitCode {
    if !report.not_made.is_empty() {
        ExitCode::from(COULD_NOT)
    } else if Tally::total(report).failed > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

/// How far all experiments are, together.
struct Bar {
    bar: Progress,
    /// How long each should take.
    plan: Vec<(Experiment, Duration)>,
    /// Where the current one began, and how long it should take.
    current: (Duration, Duration),
    name: &'static str,
}

impl Bar {
    fn new(experiments: &[Experiment], settings: &Settings) -> Self {
        let plan: Vec<_> = experiments.iter().map(|&one| (one, expected(one, settings))).collect();
        let all = plan.iter().map(|(_, length)| *length).sum();
        let current = (Duration::ZERO, Duration::ZERO);
        Self { bar: Progress::new(all), plan, current, name: "" }
    }

    fn begin(&mut self, experiment: Experiment) {
        let before = self.plan.iter().take_while(|(one, _)| *one != experiment);
        let begins = before.map(|(_, length)| *length).sum();
        self.current = (begins, expected_of(&self.plan, experiment));
        self.name = experiment.name();
        self.step("", 0.0);
    }
}

impl lab::Progress for Bar {
    fn step(&mut self, what: &str, done: f64) {
        let (begins, length) = self.current;
        let done = begins + length.mul_f64(done.clamp(0.0, 1.0));
        self.bar.at(done, &format!("{}: {what}", self.name));
    }
}

fn expected_of(plan: &[(Experiment, Duration)], experiment: Experiment) -> Duration {
    plan.iter().find(|(one, _)| *one == experiment).map_or(Duration::ZERO, |(_, length)| *length)
}

/// About how long an experiment takes.
fn expected(experiment: Experiment, settings: &Settings) -> Duration {
    match experiment {
        Experiment::Drift => settings.drift + Duration::from_secs(2),
        Experiment::Agreement => settings.drift * 2,
        Experiment::Restore => settings.away * 2 + Duration::from_secs(2),
        Experiment::Monotonic => Duration::from_secs(2 + settings.monotonic_reads / 2_000_000),
        _ => Duration::from_secs(4),
    }
}
