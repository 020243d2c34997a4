//! The report for people: the verdict, a summary, then each experiment's table and checks.

use anstyle::{AnsiColor, Style};
use instruments::figures::{count, three_digits, time};
use lab::results::{
    Check, CheckTally, ColumnForm, ExperimentOutcome, Report, ResultColumn, ResultRow, ResultTable,
    Verdict,
};
use serde_json::Value;

use crate::commands::lab::LabReport;
use crate::output::table::{Cell, Column, ReportTable, width, wrap};
use crate::output::{number_of, printable};

/// How much of the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One screen: what a person needs first, and the checks that failed.
    Short,
    /// All figures and checks.
    Whole,
}

/// The report; in colour or without.
pub(super) fn render(report: &LabReport, extent: Extent, colours: bool) -> String {
    let mut text = format!("{}\n{}", wrap(&verdict(report, extent), width()), heading(report));
    text.extend(["\n", &summary(&report.lab).text()]);
    // Two hundred lines of checks that passed would hide one that failed.
    let listed = if extent == Extent::Whole { Listed::All } else { Listed::Failed };
    for outcome in &report.lab.experiments {
        if extent == Extent::Whole && !outcome.table.rows.is_empty() {
            text.extend(["\n", &figures(&outcome.table).text()]);
        }
        if listed.checks(outcome).next().is_some() {
            text.extend(["\n", &list(outcome, listed, colours)]);
        }
    }
    text
}

/// What the experiments ran on.
fn heading(report: &LabReport) -> String {
    let lab = &report.lab;
    let tsc = lab.host_tsc_hz as f64 / 1e6;
    let one_cpu = match report.machine.cpus {
        1 => {
            ". This process may use one CPU only: vCPUs take turns, so nothing here shows how \
             their clocks agree; run it on two (`taskset`, or give the machine more)"
        }
        _ => "",
    };
    let run = format!(
        "Virtual machines on /dev/kvm, host TSC {tsc:.3} MHz; from a machine's start to its \
         guest's first report {:.1} ms{one_cpu}",
        lab.boot_ms
    );
    format!("{}\n{}\n", report.machine.line(), wrap(&run, width()))
}

/// The first sentence.
fn verdict(report: &LabReport, extent: Extent) -> String {
    let tally = CheckTally::total(&report.lab);
    let not_run = match report.lab.not_run.len() {
        0 => String::new(),
        experiments => format!(" Experiments that could not run: {experiments}."),
    };
    let rest = match extent {
        Extent::Short => " All figures and checks: --verbose.",
        Extent::Whole => "",
    };
    format!("{}: {tally}.{not_run}{rest}", number_of(tally.checks() as u64, "check"))
}

/// What an experiment measured.
pub(super) fn figures(result: &ResultTable) -> ReportTable {
    let columns = result.columns.iter().map(|column| match column.form {
        ColumnForm::Words => Column::words(&column.heading),
        ColumnForm::Name => Column::names(&column.heading),
        _ => Column::figures(&column.heading, &column.unit),
    });
    let mut table = ReportTable::new(&result.title, columns);
    for row in &result.rows {
        table.row(result.columns.iter().map(|column| {
            text(column.value(row), column.form).map_or_else(Cell::none, Cell::from)
        }));
    }
    result.notes.iter().for_each(|note| table.note(note));
    table
}

/// A value in the form of its column; two values are one before and after a change.
fn text(value: &Value, form: ColumnForm) -> Option<String> {
    if let Value::Array(values) = value {
        let mut texts: Vec<_> = values.iter().filter_map(|value| text(value, form)).collect();
        texts.dedup();
        return Some(texts.join(" → "));
    }
    let figure = |show: &dyn Fn(f64) -> String| value.as_f64().map(show);
    match form {
        ColumnForm::Words | ColumnForm::Name => value.as_str().map(str::to_owned),
        ColumnForm::Count => figure(&|number| count(number as u64)),
        ColumnForm::Nanos => figure(&time),
        ColumnForm::Significant => figure(&three_digits),
        ColumnForm::Digits(digits) => figure(&|number| {
            let text = format!("{number:.digits$}");
            // 0.0, not -0.0.
            let is_zero = !text.contains(|digit: char| ('1'..='9').contains(&digit));
            if is_zero { text.trim_start_matches('-').to_owned() } else { text }
        }),
    }
}

/// All experiments of a report.
pub(super) fn summary(report: &Report) -> ReportTable {
    let mut table = ReportTable::new(
        "Summary",
        [
            Column::names("experiment"),
            Column::figures("passed", ""),
            Column::figures("failed", ""),
            Column::figures("not\nmeasured", ""),
            Column::figures("took", "s"),
            Column::words("worst figure"),
        ],
    );
    for outcome in &report.experiments {
        let tally = CheckTally::from_outcome(outcome);
        table.row([
            outcome.experiment.as_str().into(),
            tally.passed.to_string().into(),
            tally.failed.to_string().into(),
            tally.not_measured.to_string().into(),
            Cell::figure(outcome.seconds, 1),
            worst(outcome).map_or_else(Cell::none, Cell::from),
        ]);
    }
    for one in &report.not_run {
        let dashes = [Cell::none(), Cell::none(), Cell::none(), Cell::none()];
        let why = format!("could not run: {}", one.why);
        table.row([one.experiment.as_str().into()].into_iter().chain(dashes).chain([why.into()]));
    }
    table
}

/// The figure furthest from what it should be, with the names of its row; else the check that
/// failed.
fn worst(outcome: &ExperimentOutcome) -> Option<String> {
    let figure = outcome.table.worst_row().and_then(|(column, row)| {
        let figure = text(column.value(row), column.form)?;
        let words = [figure, column.unit.clone(), column.heading.replace('\n', " ")];
        let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        Some(format!("{words}: {}", names(&outcome.table.columns, row)))
    });
    figure.or_else(|| {
        let failed = outcome.checks.iter().find(|check| check.verdict == Verdict::Failed);
        failed.map(|check| check.name.clone())
    })
}

fn names(columns: &[ResultColumn], row: &ResultRow) -> String {
    let is_name =
        |column: &&ResultColumn| matches!(column.form, ColumnForm::Name | ColumnForm::Words);
    let names = columns.iter().filter(is_name);
    names.filter_map(|column| text(column.value(row), column.form)).collect::<Vec<_>>().join(" ")
}

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
