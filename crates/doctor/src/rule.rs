//! What a rule is and returns, and which are applied.

use std::fmt;

use facts::Unknown;

use crate::case::Case;
use crate::finding::{Finding, Harm};
use crate::rules::RULES;

/// One rule: a row of the table, from which the guide's page is made too.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Stable name: `slow-clocksource`.
    pub name: &'static str,
    /// What its findings do to the time, unless one states that it is wrong now.
    pub harm: Harm,
    /// What it checks, and its limits.
    pub checks: &'static str,
    /// The vendor document, kernel file or manual section it rests on.
    pub source: &'static str,
    pub(crate) check: fn(&Case<'_>) -> Check,
}

/// The rules that a person asked for: all, unless some are named.
///
/// ```
/// use doctor::rule::RuleSelection;
/// let one = RuleSelection { only: vec!["steal-time".into()], ..RuleSelection::default() };
/// assert_eq!(one.rules().count(), 1);
/// let all = RuleSelection::default();
/// assert_eq!(all.rules().count(), doctor::rules::RULES.len());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSelection {
    /// Only these, by name; all where it is empty.
    pub only: Vec<String>,
    /// Not these, by name.
    pub ignore: Vec<String>,
}

impl RuleSelection {
    /// The rules, in the table's order. A name of no rule selects nothing.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        let named = |names: &[String], rule: &Rule| names.iter().any(|name| name == rule.name);
        RULES.iter().filter(move |rule| {
            (self.only.is_empty() || named(&self.only, rule)) && !named(&self.ignore, rule)
        })
    }
}

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
