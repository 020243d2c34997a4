//! Checks and their results.

use anstyle::{AnsiColor, Style};
use lab::results::{Check, CheckTally, ExperimentOutcome, Verdict};

use crate::output::printable;
use crate::output::table::{width, wrap};

/// Where a check's text begins, after its verdict.
const INDENT: usize = 8;

/// A verdict for people: a failure in capitals.
const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Failed => "FAILED",
        Verdict::Passed | Verdict::NotMeasured(_) => verdict.name(),
    }
}

/// Which checks are listed; all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    All,
    Failed,
}

impl Listed {
    pub(super) fn checks(self, outcome: &ExperimentOutcome) -> impl Iterator<Item = &Check> {
        let is_listed = move |check: &&Check| self == Self::All || check.verdict == Verdict::Failed;
        outcome.checks.iter().filter(is_listed)
    }
}

fn title(outcome: &ExperimentOutcome) -> String {
    format!(
        "Checks of {}, {:.1} s: {}",
        outcome.experiment,
        outcome.seconds,
        CheckTally::from_outcome(outcome)
    )
}

/// Checks of an experiment, in colour or without. A paragraph each: in a table the columns would be one word wide.
pub(super) fn list(outcome: &ExperimentOutcome, listed: Listed, colours: bool) -> String {
    let mut text = title(outcome) + "\n";
    for check in listed.checks(outcome) {
        let line = match &check.verdict {
            Verdict::NotMeasured(why) => format!("{}: not measured: {why}", check.name),
            _ => format!("{}: {} (expected: {})", check.name, check.found, check.expected),
        };
        let (mark, style) = mark(&check.verdict);
        let blank = " ".repeat(INDENT - mark.chars().count());
        let mark = if colours { format!("{style}{mark}{style:#}") } else { mark.to_owned() };
        for (i, line) in wrap(&printable(&line), width() - INDENT).lines().enumerate() {
            if i == 0 {
                text.extend([mark.as_str(), &blank]);
            } else {
                text.push_str(&" ".repeat(INDENT));
            }
            text.extend([line, "\n"]);
        }
    }
    text
}

/// The first word of a check's paragraph.
fn mark(verdict: &Verdict) -> (&'static str, Style) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match verdict {
        Verdict::Passed => (word(verdict), colour(AnsiColor::Green)),
        Verdict::Failed => (word(verdict), colour(AnsiColor::Red).bold()),
        Verdict::NotMeasured(_) => ("–", colour(AnsiColor::Yellow)),
    }
}
