//! One run of the lab: which experiments in which order, and their report.

use std::time::Duration;

use pvclock::Hertz;
use vmm::MachineError;

use crate::bench::boot;
use crate::results::{NotRun, Report};
use crate::run;
use crate::settings::{Experiment, LabError, LabProgress, Settings};

/// What to run.
#[derive(Debug, Clone)]
pub struct LabSession {
    /// The experiments, in this order.
    pub experiments: Vec<Experiment>,
    /// How to run them.
    pub settings: Settings,
    /// The TSC frequency to advertise, instead of the factor in the settings.
    pub advertised_tsc: Option<Hertz>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No KVM that the lab can use.
    #[error(transparent)]
    NoKvm(MachineError),
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
    /// These, or all if none is named, in the order they run.
    pub fn chosen(named: &[Self]) -> Vec<Self> {
        let is_chosen = |one: &Self| named.is_empty() || named.contains(one);
        let on_request = [Self::Locks, Self::Network];
        let on_request = on_request.into_iter().filter(|one| named.contains(one));
        Self::ALL.into_iter().filter(is_chosen).chain(on_request).collect()
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

impl LabSession {
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

    /// Runs the experiments.
    ///
    /// # Errors
    /// [`SessionError`]; experiments that could not run among others are in the
    /// report.
    pub fn run(&self, progress: &mut dyn LabProgress) -> Result<Report, SessionError> {
        let host_tsc = vmm::kvm::host_tsc().map_err(SessionError::NoKvm)?;
        let mut settings = self.settings.clone();
        if let Some(advertised) = self.advertised_tsc {
            settings.advertised_over_true = advertised.0 as f64 / host_tsc.0 as f64;
        }
        let booted = boot(&Experiment::Conformance.settings(&settings));
        let boot_ms = booted.map_err(SessionError::NoBoot)?.as_secs_f64() * 1e3;
        let run = |experiment: Experiment, progress: &mut dyn LabProgress| {
            (experiment, run(experiment, &experiment.settings(&settings), progress))
        };
        let (mut experiments, mut not_run) = (Vec::new(), Vec::new());
        let mut begins = Duration::ZERO;
        for (experiment, beside) in self.turns() {
            let mut part =
                SessionPart { all: self.length(), begins, experiment, session: self, progress };
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
        Ok(Report { host_tsc_hz: host_tsc.0, boot_ms, experiments, not_run })
    }
}

/// One experiment's progress as part of all.
struct SessionPart<'p> {
    all: Duration,
    begins: Duration,
    experiment: Experiment,
    session: &'p LabSession,
    progress: &'p mut dyn LabProgress,
}

impl LabProgress for SessionPart<'_> {
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

    fn session(experiments: &[Experiment]) -> LabSession {
        let (experiments, settings) = (experiments.to_vec(), Settings::default());
        LabSession { experiments, settings, advertised_tsc: None }
    }

    #[test]
    fn experiments_run_in_the_lab_s_own_order() {
        let named = [Experiment::Drift, Experiment::Cost];
        assert_eq!(Experiment::chosen(&named), [Experiment::Cost, Experiment::Drift]);
        assert_eq!(Experiment::chosen(&[]), Experiment::ALL);
    }

    #[test]
    fn agreement_runs_beside_drift_and_else_alone() {
        use Experiment::{Agreement, Cost, Drift};
        let all = session(&[Cost, Agreement, Drift]);
        assert_eq!(all.turns(), [(Cost, None), (Drift, Some(Agreement))]);
        assert_eq!(all.length(), Duration::from_secs(12));
        assert_eq!(session(&[Agreement]).turns(), [(Agreement, None)]);
        assert_eq!(session(&[Drift]).turns(), [(Drift, None)]);
    }

    #[test]
    fn progress_goes_from_nothing_to_all() {
        struct Steps(Vec<f64>);
        impl LabProgress for Steps {
            fn step(&mut self, _: &str, done: f64) {
                self.0.push(done);
            }
        }
        let (session, mut steps) = (session(&[Experiment::Cost, Experiment::Drift]), Steps(vec![]));
        let mut begins = Duration::ZERO;
        for (experiment, _) in session.turns() {
            let all = session.length();
            let progress = &mut steps;
            let mut part = SessionPart { all, begins, experiment, session: &session, progress };
            for done in [0.0, 0.5, 7.0] {
                part.step("", done);
            }
            begins += experiment.length(&session.settings);
        }
        // 2 s of cost and 10 of drift; no part is more than all of its own.
        let expected = [0.0, 1.0 / 12.0, 2.0 / 12.0, 2.0 / 12.0, 7.0 / 12.0, 1.0];
        assert!(steps.0.iter().zip(expected).all(|(is, expected)| (is - expected).abs() < 1e-9));
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
