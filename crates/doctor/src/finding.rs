//! What the doctor finds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rule::{Check, Outcome};

/// One finding, complete: a person can act on it without looking further.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule: `slow-clocksource`.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// What is so, in one line.
    pub what: String,
    /// The very lines or figures that show it.
    pub evidence: Vec<String>,
    /// Why it matters to the person.
    pub why: String,
    /// What to do about it, best first; empty when nothing need be done.
    pub remedies: Vec<Remedy>,
    /// Vendor document, kernel file or manual section.
    pub source: String,
}

impl Finding {
    /// A finding without evidence yet; its rule's name and source are filled
    /// in from the table of rules.
    pub(crate) fn new(severity: Severity, what: impl Into<String>) -> Self {
        Self {
            rule: String::new(),
            severity,
            what: what.into(),
            evidence: Vec::new(),
            why: String::new(),
            remedies: Vec::new(),
            source: String::new(),
        }
    }

    /// Adds a line or figure that shows it.
    pub(crate) fn evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    /// Says why it matters.
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds a way to mend it, after those already there.
    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }

    /// The answer of a rule that found only this.
    pub(crate) fn alone(self) -> Check {
        Ok(Outcome::Found(vec![self]))
    }
}

/// One way to mend it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What to do, in words.
    pub what: String,
    /// The command or setting, where there is one.
    pub command: Option<String>,
    /// What it changes, and until when.
    pub changes: Option<String>,
}

impl Remedy {
    /// Something to do for which there is no command.
    pub(crate) fn advice(what: impl Into<String>) -> Self {
        Self { what: what.into(), command: None, changes: None }
    }

    /// Something to do by a command.
    pub(crate) fn command(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..Self::advice(what) }
    }

    /// Says what it changes, and until when.
    pub(crate) fn changes(mut self, changes: impl Into<String>) -> Self {
        self.changes = Some(changes.into());
        self
    }
}

/// How bad a finding is, mildest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Will bite under circumstances that occur.
    Warning,
    /// Time is wrong, or reading it is slow, now.
    Error,
}

/// A thing the doctor checked and found fine, or could not check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Name of the rule.
    pub rule: String,
    /// What was found in order, or why it could not be checked, in one line.
    pub outcome: String,
    /// False when a fact it needs is unknown.
    pub could_check: bool,
}

/// The whole diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// One line for a person in a hurry.
    pub verdict: String,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// Everything else that was looked at.
    pub checked: Vec<Checked>,
}
