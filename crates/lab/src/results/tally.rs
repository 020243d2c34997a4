//! How many checks ended how.

use std::fmt;

use super::check::Verdict;
use crate::results::{ExperimentOutcome, Report};

/// How many checks ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckTally {
    /// Checks that hold.
    pub passed: usize,
    /// Checks that do not.
    pub failed: usize,
    /// Checks that could not be measured.
    pub not_measured: usize,
}

impl CheckTally {
    /// Of one experiment.
    pub fn from_outcome(outcome: &ExperimentOutcome) -> Self {
        let mut tally = Self::default();
        for check in &outcome.checks {
            *match check.verdict {
                Verdict::Passed => &mut tally.passed,
                Verdict::Failed => &mut tally.failed,
                Verdict::NotMeasured(_) => &mut tally.not_measured,
            } += 1;
        }
        tally
    }

    /// Of all experiments together.
    pub fn total(report: &Report) -> Self {
        report.experiments.iter().map(Self::from_outcome).fold(Self::default(), |a, b| Self {
            passed: a.passed + b.passed,
            failed: a.failed + b.failed,
            not_measured: a.not_measured + b.not_measured,
        })
    }

    /// All checks.
    pub const fn checks(self) -> usize {
        self.passed + self.failed + self.not_measured
    }
}

impl fmt::Display for CheckTally {
    /// `12 passed, 1 failed, 2 not measured`, without what is 0.
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
