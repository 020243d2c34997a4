//! What the doctor finds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
