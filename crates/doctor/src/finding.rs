//! What the doctor reports.

use schemars::JsonSchema;
use serde::Serialize;

/// One finding, complete: a person can act on it without further reading.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Finding {
    /// Stable name of the rule: `slow-clocksource`.
    pub rule: String,
    /// Its severity.
    pub severity: Severity,
    /// What it does to the time.
    pub harm: Harm,
    /// What is wrong, in one line.
    pub what: String,
    /// The lines and figures that show it.
    pub evidence: Vec<String>,
    /// Why it matters to the person.
    pub why: String,
    /// What to do about it, best first; empty when nothing is to be done.
    pub remedies: Vec<Remedy>,
    /// The vendor document, kernel file or manual section it rests on.
    pub source: String,
}

impl Finding {
    /// A finding without evidence; its rule's name and source are filled in
    /// from the table of rules.
    pub(crate) fn new(severity: Severity, what: impl Into<String>) -> Self {
        Self {
            rule: String::new(),
            severity,
            harm: Harm::MayGoWrong,
            what: what.into(),
            evidence: Vec::new(),
            why: String::new(),
            remedies: Vec::new(),
            source: String::new(),
        }
    }

    /// States that the time is wrong now.
    pub(crate) fn wrong_now(self) -> Self {
        Self { harm: Harm::WrongNow, ..self }
    }

    /// Adds a line or figure that shows it.
    pub(crate) fn evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    /// Adds lines or figures that show it, none or more.
    pub(crate) fn evidence_from<S: Into<String>>(
        mut self,
        lines: impl IntoIterator<Item = S>,
    ) -> Self {
        self.evidence.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Sets why it matters.
    pub(crate) fn explain(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds remedies, none or more, after those already there.
    pub(crate) fn remedies(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies.extend(remedies);
        self
    }

    /// Adds a remedy, after those already there.
    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

/// One remedy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Remedy {
    /// What to do, in a sentence.
    pub what: String,
    /// The command or setting, where there is one.
    pub command: Option<String>,
    /// What the command changes, and until when.
    pub changes: Option<String>,
    /// It is the next step after the remedy before it, and no alternative to it.
    pub follows: bool,
}

impl Remedy {
    /// A remedy without a command.
    pub(crate) fn advice(what: impl Into<String>) -> Self {
        Self { what: what.into(), command: None, changes: None, follows: false }
    }

    /// A remedy with a command of ours alone.
    pub(crate) fn command(what: impl Into<String>, command: &'static str) -> Self {
        Self { command: Some(command.to_owned()), ..Self::advice(what) }
    }

    /// A remedy with a command that holds words of the machine's: each is quoted, in the place of a
    /// `{}` or, where there is none left, at the end. A shell has no word with a zero byte in it.
    pub(crate) fn quoting(what: impl Into<String>, command: &'static str, words: &[&str]) -> Self {
        let quote = |word: &&str| shlex::try_quote(word).map(String::from);
        let Ok(quoted) = words.iter().map(quote).collect::<Result<Vec<_>, _>>() else {
            return Self::advice(what);
        };
        let mut quoted = quoted.into_iter();
        let mut parts = command.split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text += &quoted.next().unwrap_or_default();
            text += part;
        }
        quoted.for_each(|word| text = format!("{text} {word}"));
        Self { command: Some(text), ..Self::advice(what) }
    }

    /// This and then the other, in one command; in two steps where either has none.
    pub(crate) fn and(self, next: Self) -> Vec<Self> {
        match (&self.command, &next.command) {
            (Some(first), Some(then)) => {
                let command = Some(format!("{first} && {then}"));
                let what = format!("{} {}", self.what, next.what);
                vec![Self { what, command, follows: self.follows, ..next }]
            }
            _ => vec![self, next.then()],
        }
    }

    /// To be done after the remedy before it, not instead.
    pub(crate) fn then(self) -> Self {
        Self { follows: true, ..self }
    }

    /// Sets what it changes, and until when.
    pub(crate) fn changes(mut self, changes: impl Into<String>) -> Self {
        self.changes = Some(changes.into());
        self
    }
}

/// The severity of a finding, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Goes wrong under circumstances that occur.
    Warning,
    /// The clock is wrong, or slow to read, now.
    Error,
}

/// What a finding does to the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// The time of day is wrong now, or probably is.
    WrongNow,
    /// The time of day, or a clock derived from it, may go wrong.
    MayGoWrong,
    /// Programs read the clock slowly, wait too long, or are not alarmed.
    Other,
}

/// Whether the time of day is right now, and how that is known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TimeNow {
    /// Which.
    pub state: TimeState,
    /// What to add to the clock, s, where that is known.
    pub offset_s: Option<f64>,
    /// The true offset is within ± this, s, where the reference states its own error rightly.
    pub bound_s: Option<f64>,
    /// By what it is known, or why it is not.
    pub by: String,
}

/// Whether the time of day is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeState {
    /// Within 0.1 s, the bound included.
    Right,
    /// Off by more, the bound excluded; or a finding shows it.
    Wrong,
    /// Nothing here shows it.
    NotKnown,
}

/// A rule that found nothing, or could not check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Checked {
    /// Name of the rule.
    pub rule: String,
    /// What it found in order, or why it does not apply or could not check, in one line.
    pub outcome: String,
    /// Which of these.
    pub state: CheckState,
    /// The facts and figures that it rests on, by name; empty where it could not check.
    pub rests_on: Vec<String>,
}

/// How a rule without a finding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// All that it asked for is known, and right.
    InOrder,
    /// This machine lacks what it checks.
    DoesNotApply,
    /// A fact or figure that it asked for is unknown.
    NotChecked,
}

/// The whole diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The diagnosis in one line: whether the time is right now, what will make it wrong, and
    /// what to do first.
    pub verdict: String,
    /// Whether the time is right now.
    pub time: TimeNow,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// The rules without findings.
    pub checked: Vec<Checked>,
}
