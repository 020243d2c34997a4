//! Checks and their verdicts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
