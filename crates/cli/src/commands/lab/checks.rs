//! Bars, and how they were met.

use anstyle::{AnsiColor, Style};
use lab::results::{Check, Outcome, Verdict};

use super::report::Tally;
use super::summary;
use crate::output::table::{Column, Table, WIDTH, wrap};
use crate::output::{Format, printable};

/// Where a check's words begin, after its verdict.
const INDENT: usize = 8;

/// A verdict in words.
pub(super) const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::NotMeasured(_) => "not measured",
    }
}

/// What was found, or why nothing was.
pub(super) fn found(check: &Check) -> &str {
    match &check.verdict {
        Verdict::NotMeasured(why) => why,
        Verdict::Passed | Verdict::Failed => &check.found,
    }
}

/// Which checks are listed; all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    /// Each.
    All,
    /// Those that did not pass.
    NotPassed,
}

impl Listed {
    fn of(self, outcome: &Outcome) -> impl Iterator<Item = &Check> {
        let all = self == Self::All;
        outcome.checks.iter().filter(move |check| all || check.verdict != Verdict::Passed)
    }
}

/// Checks of an experiment, as text or Markdown; in colour or without.
pub(super) fn render(outcome: &Outcome, format: Format, listed: Listed, colours: bool) -> String {
    match format {
        Format::Markdown => table(outcome, listed).markdown(),
        _ => list(outcome, listed, colours),
    }
}

fn title(outcome: &Outcome) -> String {
    let (name, tally) = (summary::name(&outcome.findings), Tally::of(outcome));
    format!("Checks of {name}, {:.1} s: {tally}", outcome.seconds)
}

/// A paragraph each: tables of so many words would be columns of one word.
fn list(outcome: &Outcome, listed: Listed, colours: bool) -> String {
    let mut text = title(outcome) + "\n";
    for check in listed.of(outcome) {
        let said = match &check.verdict {
            Verdict::NotMeasured(why) => format!("{}: not measured: {why}", check.name),
            _ => format!("{}: {} (must hold: {})", check.name, check.found, check.bar),
        };
        let (mark, style) = mark(&check.verdict);
        let blank = " ".repeat(INDENT - mark.chars().count());
        let mark = if colours { format!("{style}{mark}{style:#}") } else { mark.to_owned() };
        for (i, line) in wrap(&printable(&said), usize::from(WIDTH) - INDENT).lines().enumerate() {
            match i {
                0 => text.extend([mark.as_str(), &blank]),
                _ => text.push_str(&" ".repeat(INDENT)),
            }
            text.extend([line, "\n"]);
        }
    }
    text
}

/// What a check's paragraph begins with.
fn mark(verdict: &Verdict) -> (&'static str, Style) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match verdict {
        Verdict::Passed => (word(verdict), colour(AnsiColor::Green)),
        Verdict::Failed => (word(verdict), colour(AnsiColor::Red).bold()),
        Verdict::NotMeasured(_) => ("–", colour(AnsiColor::Yellow)),
    }
}

fn table(outcome: &Outcome, listed: Listed) -> Table {
    let columns = ["verdict", "check", "must hold", "found"].map(Column::words);
    let mut table = Table::new(title(outcome), columns);
    for check in listed.of(outcome) {
        table.row([
            word(&check.verdict).into(),
            check.name.as_str().into(),
            check.bar.as_str().into(),
            found(check).into(),
        ]);
    }
    table
}
