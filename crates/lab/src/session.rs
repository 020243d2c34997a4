//! One run of the lab: where it runs, which experiments in which order, and
//! their report.

use std::time::Duration;

use pvclock::Hertz;
use vmm::MachineError;

use crate::bench::boot;
use crate::in_process::{IN_PROCESS, measure_host_tsc, run_in_process};
use crate::results::{NotRun, RanOn, Report};
use crate::run::run;
use crate::settings::{Experiment, LabError, Progress, Settings};

/// What to run.
#[derive(Debug, Clone)]
pub struct Session {
    /// The experiments, in this order.
    pub experiments: Vec<Experiment>,
    /// How to run them.
    pub settings: Settings,
    /// The TSC frequency to advertise, instead of the factor in the settings.
    pub advertised_tsc: Option<Hertz>,
    /// Without virtual machines.
    pub in_process: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No KVM, and no experiment that runs without.
    #[error(transparent)]
    NoKvm(MachineError),
    /// Without KVM the frequency of the host's TSC must be measured.
    #[error(transparent)]
    NoTsc(LabError),
    /// The guest does not boot, so no experiment can run.
    #[error("the guest did not start: {0}")]
    NoBoot(LabError),
    /// The only experiment could not run.
    #[error("{} could not run: {error}", experiment.name())]
    NotRun {
        /// Which.
        experiment: Experiment,
        /// Why.
        error: LabError,
    },
}

impl Experiment {
    /// These, or all that run there if none is named, in the order they run.
    pub fn chosen(named: &[Self], in_process: bool) -> Vec<Self> {
        let runs = |one: &Self| !in_process || IN_PROCESS.contains(one);
        let is_chosen = |one: &Self| if named.is_empty() { runs(one) } else { named.contains(one) };
        Self::ALL.into_iter().filter(is_chosen).collect()
    }

    /// About how long it takes.
    fn length(self, settings: &Settings) -> Duration {
        let seconds = Duration::from_secs;
        match self {
            Self::Drift | Self::Agreement => settings.drift,
            Self::Restore => settings.downtime,
            Self::Monotonic => seconds(1 + settings.monotonic_reads / 2_000_000),
            Self::Updates => seconds(6),
            Self::Ticks => seconds(3),
            Self::Locks => crate::locks::length(settings.rounds),
            Self::Network => crate::network::length(settings.rounds),
            Self::Conformance | Self::Cost | Self::Offset => seconds(2),
            Self::Linux => seconds(15) * (settings.providers.len() as u32 + 1),
        }
    }

    /// Drift and offset are about a wrong frequency; the others advertise the
    /// true one.
    fn settings(self, settings: &Settings) -> Settings {
        let advertised_over_true = match self {
            Self::Drift | Self::Offset => settings.advertised_over_true,
            _ => 1.0,
        };
        Settings { advertised_over_true, ..settings.clone() }
    }
}

impl Session {
    /// About how long it takes.
    pub fn length(&self) -> Duration {
        self.turns().iter().map(|(one, _)| one.length(&self.settings)).sum()
    }

    /// The experiments one after the other, and what runs beside each: agreement
    /// beside drift, as both sleep but for a reading now and then, of machines and
    /// pages of their own.
    fn turns(&self) -> Vec<(Experiment, Option<Experiment>)> {
        let chosen = |one| self.experiments.contains(&one);
        let both = chosen(Experiment::Agreement) && chosen(Experiment::Drift);
        let turns = self.experiments.iter().map(|&one| match one {
            Experiment::Drift if both => (one, Some(Experiment::Agreement)),
            _ => (one, None),
        });
        turns.filter(|(one, _)| !both || *one != Experiment::Agreement).collect()
    }

    /// Runs the experiments. Without a usable KVM those that can run in
    /// process, after `no_kvm` has been called with the reason.
    ///
    /// # Errors
    /// [`SessionError`]; experiments that could not run among others are in the
    /// report.
    pub fn run(
        &self,
        progress: &mut dyn Progress,
        no_kvm: impl FnOnce(&MachineError),
    ) -> Result<Report, SessionError> {
        let (ran_on, host_tsc) = self.place(no_kvm)?;
        let mut settings = self.settings.clone();
        if let Some(advertised) = self.advertised_tsc {
            settings.advertised_over_true = advertised.0 as f64 / host_tsc.0 as f64;
        }
        let boot_ms = match ran_on {
            RanOn::Kvm => {
                let booted = boot(&Experiment::Conformance.settings(&settings));
                Some(booted.map_err(SessionError::NoBoot)?.as_secs_f64() * 1e3)
            }
            RanOn::InProcess(_) => None,
        };
        let run = |experiment: Experiment, progress: &mut dyn Progress| {
            let settings = experiment.settings(&settings);
            let result = match ran_on {
                RanOn::Kvm => run(experiment, &settings, progress),
                RanOn::InProcess(_) => run_in_process(experiment, &settings, host_tsc, progress),
            };
            (experiment, result)
        };
        let (mut experiments, mut not_run) = (Vec::new(), Vec::new());
        let mut begins = Duration::ZERO;
        for (experiment, beside) in self.turns() {
            let mut part = Part { all: self.length(), begins, experiment, session: self, progress };
            part.step("starting", 0.0);
            let (beside, this) = std::thread::scope(|scope| {
                let beside = beside.map(|beside| scope.spawn(move || run(beside, &mut ())));
                let this = run(experiment, &mut part);
                (beside.map(|thread| thread.join().expect("an experiment does not panic")), this)
            });
            begins += experiment.length(&self.settings);
            for (experiment, result) in beside.into_iter().chain([this]) {
                match result {
                    Ok(outcome) => experiments.push(outcome),
                    Err(error) if self.experiments.len() == 1 => {
                        return Err(SessionError::NotRun { experiment, error });
                    }
                    Err(error) => not_run.push(NotRun {
                        experiment: experiment.name().into(),
                        why: error.to_string(),
                    }),
                }
            }
        }
        Ok(Report { ran_on, host_tsc_hz: host_tsc.0, boot_ms, experiments, not_run })
    }

    /// Virtual machines, or this process.
    fn place(&self, no_kvm: impl FnOnce(&MachineError)) -> Result<(RanOn, Hertz), SessionError> {
        let why = if self.in_process {
            "requested".to_owned()
        } else {
            match vmm::kvm::host_tsc() {
                Ok(host_tsc) => return Ok((RanOn::Kvm, host_tsc)),
                Err(error @ (MachineError::NoKvm(_) | MachineError::Unsupported { .. }))
                    if self.experiments.iter().any(|one| IN_PROCESS.contains(one)) =>
                {
                    no_kvm(&error);
                    error.to_string()
                }
                Err(error) => return Err(SessionError::NoKvm(error)),
            }
        };
        let host_tsc = measure_host_tsc().map_err(SessionError::NoTsc)?;
        Ok((RanOn::InProcess(why), host_tsc))
    }
}

/// One experiment's progress as part of all.
struct Part<'p> {
    all: Duration,
    begins: Duration,
    experiment: Experiment,
    session: &'p Session,
    progress: &'p mut dyn Progress,
}

impl Progress for Part<'_> {
    fn step(&mut self, what: &str, done: f64) {
        let length = self.experiment.length(&self.session.settings);
        let done = self.begins + length.mul_f64(done.clamp(0.0, 1.0));
        let what = format!("{}: {what}", self.experiment.name());
        // Durations below half a nanosecond are none at all.
        let all = self.all.as_secs_f64();
        self.progress.step(&what, if all > 0.0 { done.as_secs_f64() / all } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Tally;

    #[derive(Default)]
    struct Steps(Vec<f64>);

    impl Progress for Steps {
        fn step(&mut self, _: &str, done: f64) {
            self.0.push(done);
        }
    }

    fn in_process(experiments: &[Experiment]) -> Session {
        let (experiments, settings) = (experiments.to_vec(), Settings::default());
        Session { experiments, settings, advertised_tsc: None, in_process: true }
    }

    #[test]
    fn experiments_run_in_the_lab_s_own_order() {
        let named = [Experiment::Drift, Experiment::Cost];
        assert_eq!(Experiment::chosen(&named, false), [Experiment::Cost, Experiment::Drift]);
        assert_eq!(Experiment::chosen(&[], false), Experiment::ALL);
        assert_eq!(Experiment::chosen(&[], true), IN_PROCESS);
    }

    #[test]
    fn agreement_runs_beside_drift_and_else_alone() {
        use Experiment::{Agreement, Cost, Drift};
        let all = in_process(&[Cost, Agreement, Drift]);
        assert_eq!(all.turns(), [(Cost, None), (Drift, Some(Agreement))]);
        assert_eq!(all.length(), Duration::from_secs(12));
        assert_eq!(in_process(&[Agreement]).turns(), [(Agreement, None)]);
        assert_eq!(in_process(&[Drift]).turns(), [(Drift, None)]);
    }

    #[test]
    fn a_session_reports_what_ran_and_what_did_not() {
        let mut steps = Steps::default();
        let session = in_process(&[Experiment::Conformance, Experiment::Restore]);
        let report = session.run(&mut steps, |_| panic!("requested")).unwrap();
        assert_eq!((report.experiments.len(), report.not_run.len()), (1, 1));
        assert_eq!(report.not_run[0].experiment, "restore");
        assert!(Tally::total(&report).passed > 0);
        assert!(steps.0.is_sorted() && steps.0.iter().all(|done| (0.0..=1.0).contains(done)));
    }

    #[test]
    fn an_experiment_that_could_not_run_alone_is_an_error() {
        let error = in_process(&[Experiment::Restore]).run(&mut (), |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "restore could not run: needs a virtual machine on /dev/kvm");
    }

    #[test]
    fn only_drift_and_offset_advertise_a_wrong_frequency() {
        let settings = Settings { advertised_over_true: 1.1, ..Settings::default() };
        for experiment in Experiment::ALL {
            let is_wrong = experiment.settings(&settings).advertised_over_true != 1.0;
            assert_eq!(is_wrong, matches!(experiment, Experiment::Drift | Experiment::Offset));
        }
    }
}
