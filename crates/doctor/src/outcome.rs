//! What a rule returns.

use facts::Unknown;

use crate::finding::Finding;

/// A rule's result.
pub(crate) type Check = Result<Outcome, Skipped>;

/// The result of a rule that could check.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Findings to report.
    Found(Vec<Finding>),
    /// Nothing found, and why that is right.
    Fine(String),
}

impl Outcome {
    /// Nothing found, and why that is right.
    pub(crate) fn fine(why: impl Into<String>) -> Check {
        Ok(Self::Fine(why.into()))
    }

    /// `findings`, or if there are none, why that is right.
    pub(crate) fn findings_or_fine(findings: Vec<Finding>, fine: impl FnOnce() -> String) -> Check {
        Ok(if findings.is_empty() { Self::Fine(fine()) } else { Self::Found(findings) })
    }
}

impl Finding {
    /// The result of a rule that found only this.
    pub(crate) fn alone(self) -> Check {
        Ok(Outcome::Found(vec![self]))
    }
}

/// Why a rule did not check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// This kind of machine lacks what it checks.
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
