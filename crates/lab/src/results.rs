//! What the experiments find: reports, checks with their verdicts, and how many ended how.

mod table;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use table::{ColumnForm, ResultColumn, ResultRow, ResultTable};

/// What an experiment returns.
pub(crate) type ExperimentResult = (ResultTable, Vec<Check>);

/// All of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The host's TSC, Hz.
    pub host_tsc_hz: u64,
    /// From the machine's start to the guest's first report, ms.
    pub boot_ms: f64,
    /// In the order they ran.
    pub experiments: Vec<ExperimentOutcome>,
    /// Experiments that could not run.
    pub not_run: Vec<NotRun>,
}

/// An experiment that could not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRun {
    /// Its name.
    pub experiment: String,
    /// Why.
    pub why: String,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentOutcome {
    /// Its name.
    pub experiment: String,
    /// What it measured; conformance has checks only.
    pub table: ResultTable,
    /// Its checks.
    pub checks: Vec<Check>,
    /// How long it took, s.
    pub seconds: f64,
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked: `hyperv: counter against page`.
    pub name: String,
    /// What must hold, with its tolerance: `within 200 ppm of theory`.
    pub expected: String,
    /// What was found: `12.3 ppm`.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// It could not be measured here, and why.
    NotMeasured(String),
}

impl Verdict {
    /// By a condition.
    pub fn judge(holds: bool) -> Self {
        if holds { Self::Passed } else { Self::Failed }
    }

    /// Not measured, where it failed for this reason that is not the subject's.
    pub(crate) fn excused(self, why: Option<&str>) -> Self {
        match why {
            Some(why) if self == Self::Failed => Self::NotMeasured(why.to_owned()),
            _ => self,
        }
    }

    /// `passed`, `failed` or `not measured`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotMeasured(_) => "not measured",
        }
    }
}

impl Check {
    /// By a condition.
    pub(crate) fn new(
        name: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
        holds: bool,
    ) -> Self {
        let verdict = Verdict::judge(holds);
        Self { name: name.into(), expected: expected.into(), found: found.into(), verdict }
    }

    /// Not measured, for this reason.
    pub(crate) fn not_measured(
        name: impl Into<String>,
        expected: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::NotMeasured(why.into()), ..Self::new(name, expected, "", false) }
    }

    /// What was found, or why nothing was.
    pub fn result(&self) -> &str {
        match &self.verdict {
            Verdict::NotMeasured(why) => why,
            Verdict::Passed | Verdict::Failed => &self.found,
        }
    }

    /// [`Verdict::excused`].
    pub(crate) fn excused(self, why: Option<&str>) -> Self {
        Self { verdict: self.verdict.excused(why), ..self }
    }
}

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
