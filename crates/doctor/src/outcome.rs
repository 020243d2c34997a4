//! What a rule returns.

use std::fmt;

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

/// Why a rule did not check, and so the answer of a fact without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// This kind of machine lacks what it checks.
    DoesNotApply(String),
    /// The machine has no such file, device or program.
    Absent(String),
    /// A fact or figure it needs is unknown.
    CouldNot(String),
}

impl Skipped {
    /// That the rule does not apply, where what it asked for is absent.
    pub(crate) fn unless_absent(self, why: &str) -> Self {
        match self {
            Self::Absent(_) => Self::DoesNotApply(format!("does not apply: {why}")),
            other => other,
        }
    }
}

/// The fact, or none where the machine lacks it. Unknown, it ends the rule, which would otherwise
/// take the usual case for this one.
pub(crate) fn perhaps<T>(fact: Result<T, Skipped>) -> Result<Option<T>, Skipped> {
    match fact {
        Ok(value) => Ok(Some(value)),
        Err(Skipped::CouldNot(why)) => Err(Skipped::CouldNot(why)),
        Err(_) => Ok(None),
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::DoesNotApply(why) | Self::Absent(why) | Self::CouldNot(why)) = self;
        f.write_str(why)
    }
}

impl From<&Unknown> for Skipped {
    fn from(unknown: &Unknown) -> Self {
        match unknown {
            Unknown::NotApplicable { .. } => Self::DoesNotApply(unknown.to_string()),
            Unknown::NotThere { .. } => Self::Absent(unknown.to_string()),
            _ => Self::CouldNot(unknown.to_string()),
        }
    }
}
