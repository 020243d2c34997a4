//! One run of the lab: the experiments in turn, then the report.

use std::process::ExitCode;
use std::time::Duration;

use lab::results::{RanOn, Report};
use lab::{Experiment, Settings};
use pvclock::Hertz;
use vmm::MachineError;

use super::format::Format;
use super::options::{Run, Tuning};
use super::report::{LabReport, NotMade, Tally};
use super::{absent, csv, junit, plot, tap, text};
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
        // A report that cannot be printed may still be drawn, and the other way.
        let path = self.tuning.plot.as_ref();
        let drawn = path.map_or(Ok(()), |path| output::file(path, plot::svg(&report)?));
        let printed = self.print(&report);
        // First, for a printout cut short (`| head`) is no error to tell.
        drawn?;
        printed?;
        Ok(exit_code(&report))
    }

    fn make(&self) -> Result<LabReport, CliError> {
        let (ran_on, host_tsc) = self.place()?;
        let mut settings = self.tuning.settings.clone();
        if let Some(told) = self.tuning.told_hz {
            settings.told_over_true = told as f64 / host_tsc.0 as f64;
        }
        let boot = match ran_on {
            RanOn::Kvm => {
                let settings = settings_for(Experiment::Conformance, &settings);
                // A guest that does not start is no subject of anything.
                Some(lab::boot(&settings).map_err(|error| absent::no_boot(&error))?)
            }
            RanOn::InProcess(_) => None,
        };
        let boot_ms = boot.map(|length| length.as_secs_f64() * 1e3);
        let mut progress = Bar::new(&self.experiments, &settings);
        let (mut experiments, mut not_made) = (Vec::new(), Vec::new());
        for &experiment in &self.experiments {
            progress.begin(experiment);
            let settings = settings_for(experiment, &settings);
            let made = match ran_on {
                RanOn::Kvm => lab::run(experiment, &settings, &mut progress),
                RanOn::InProcess(_) => {
                    lab::run_in_process(experiment, &settings, host_tsc, &mut progress)
                }
            };
            match made {
                Ok(outcome) => experiments.push(outcome),
                // With nothing else to report, it is told as any failure.
                Err(error) if self.experiments.len() == 1 => {
                    return Err(absent::not_made(experiment, &error));
                }
                Err(error) => not_made
                    .push(NotMade { experiment: experiment.name().into(), why: error.to_string() }),
            }
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let lab = Report { ran_on, host_tsc_hz: host_tsc.0, boot_ms, experiments };
        Ok(LabReport { version, machine: Machine::this(), lab, not_made })
    }

    /// Virtual machines, or this process where there are none and some of it
    /// can be made without: the person is told at once.
    fn place(&self) -> Result<(RanOn, Hertz), CliError> {
        let why = if self.tuning.in_process {
            "asked for".to_owned()
        } else {
            match vmm::kvm::host_tsc() {
                Ok(host_tsc) => return Ok((RanOn::Kvm, host_tsc)),
                Err(error @ (MachineError::NoKvm(_) | MachineError::Lacks { .. }))
                    if self.experiments.iter().any(|one| lab::IN_PROCESS.contains(one)) =>
                {
                    absent::told(&error).print();
                    error.to_string()
                }
                Err(error) => return Err(absent::told(&error)),
            }
        };
        let host_tsc = lab::measure_host_tsc().map_err(|error| CliError::Failed {
            cause: error.to_string(),
            remedy: "a machine whose TSC is constant".into(),
        })?;
        Ok((RanOn::InProcess(why), host_tsc))
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

/// The others are held to what the guest is truly told.
fn settings_for(experiment: Experiment, settings: &Settings) -> Settings {
    let told_over_true = match experiment {
        Experiment::Drift | Experiment::Offset => settings.told_over_true,
        _ => 1.0,
    };
    Settings { told_over_true, ..settings.clone() }
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
        self.bar.at(begins, self.name);
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
    let seconds = Duration::from_secs;
    match experiment {
        Experiment::Drift | Experiment::Agreement => settings.drift,
        Experiment::Restore => settings.away * 4,
        Experiment::Monotonic => seconds(1 + settings.monotonic_reads / 2_000_000),
        Experiment::Updates => seconds(6),
        Experiment::Conformance | Experiment::Cost | Experiment::Offset => seconds(2),
    }
}
