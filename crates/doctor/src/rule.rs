//! What a rule is, and what it can answer.

use facts::Unknown;

use crate::case::Case;
use crate::finding::Finding;

/// One rule: a row of the table, from which the guide's page is made too.
#[derive(Debug)]
pub struct Rule {
    /// Stable name: `slow-clocksource`.
    pub name: &'static str,
    /// What it checks, and from which figure on it speaks up.
    pub checks: &'static str,
    /// The vendor document, kernel file or manual section it rests on.
    pub source: &'static str,
    pub(crate) check: fn(&Case<'_>) -> Check,
}

/// A rule's answer.
pub(crate) type Check = Result<Outcome, Skipped>;

/// What a rule that could look has seen.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// These are to be told.
    Found(Vec<Finding>),
    /// All is well, and why.
    Fine(String),
}

impl Outcome {
    /// All is well, and why.
    pub(crate) fn fine(why: impl Into<String>) -> Check {
        Ok(Self::Fine(why.into()))
    }

    /// `findings`, or if there are none, why all is well.
    pub(crate) fn found_or(findings: Vec<Finding>, fine: impl FnOnce() -> String) -> Check {
        Ok(if findings.is_empty() { Self::Fine(fine()) } else { Self::Found(findings) })
    }
}

/// Why a rule did not look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// This kind of machine does not have what it looks at.
    DoesNotApply(String),
    /// A fact or figure it needs is unknown.
    CouldNot(String),
}

impl From<&Unknown> for Skipped {
    fn from(unknown: &Unknown) -> Self {
        match unknown {
            Unknown::NotApplicable { .. } => Self::DoesNotApply(unknown.to_string()),
            _ => Self::CouldNot(unknown.to_string()),
        }
    }
}
