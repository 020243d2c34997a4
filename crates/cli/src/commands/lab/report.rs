//! What `parachron lab` found: the document of `--format json`.

use std::fmt;

use lab::results::{Outcome, Report, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::bench::report::Machine;

/// All that `parachron lab` did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which host.
    pub(crate) machine: Machine,
    /// The experiments.
    #[serde(flatten)]
    pub(crate) lab: Report,
    /// Experiments that could not be made.
    pub(crate) not_made: Vec<NotMade>,
}

/// An experiment that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct NotMade {
    /// Its name.
    pub(crate) experiment: String,
    /// Why.
    pub(crate) why: String,
}

/// How many checks ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) not_measured: usize,
}

impl Tally {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let count = |test: fn(&Verdict) -> bool| {
            outcome.checks.iter().filter(|check| test(&check.verdict)).count()
        };
        Self {
            passed: count(|verdict| *verdict == Verdict::Passed),
            failed: count(|verdict| *verdict == Verdict::Failed),
            not_measured: count(|verdict| matches!(verdict, Verdict::NotMeasured(_))),
        }
    }

    /// Of all experiments together.
    pub(super) fn total(report: &LabReport) -> Self {
        report.lab.experiments.iter().map(Self::of).fold(Self::default(), |a, b| Self {
            passed: a.passed + b.passed,
            failed: a.failed + b.failed,
            not_measured: a.not_measured + b.not_measured,
        })
    }
}

impl fmt::Display for Tally {
    /// `12 passed, 1 failed, 2 not measured`; what is 0 is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed", self.passed)?;
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        if self.not_measured > 0 {
            write!(f, ", {} not measured", self.not_measured)?;
        }
        Ok(())
    }
}
