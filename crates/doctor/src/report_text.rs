//! The report for people: 80 columns, calm, the worst first.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use facts::parse::{printable, wrap};

use crate::finding::{CheckState, Checked, Finding, Remedy, Severity};
use crate::report::{DoctorReport, MachineSummary};
use crate::text;

/// Where text is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextScreen {
    /// Columns, at least 40.
    pub width: usize,
    /// Whether it shows colours.
    pub colours: bool,
}

impl TextScreen {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { width: 80, colours: false };
}

/// How much of a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportExtent {
    /// What fits a screen of 25 lines: the page, or else what to do first about each finding.
    Screen,
    /// Each finding with its grounds and its first remedies.
    Page,
    /// All remedies, and the rules without a finding.
    Whole,
}

/// The report in text.
pub fn render(report: &DoctorReport, extent: ReportExtent, screen: TextScreen) -> String {
    if extent == ReportExtent::Screen {
        let page = render(report, ReportExtent::Page, screen);
        return if page.lines().count() <= SCREEN_LINES { page } else { brief(report, screen) };
    }
    let mut page = TextPage::with_verdict(report, screen);
    let whole = extent == ReportExtent::Whole;
    machine(&mut page, &report.machine);
    for finding in &report.diagnosis.findings {
        self::finding(&mut page, finding, if whole { usize::MAX } else { MOST });
    }
    page.rule();
    if whole {
        for (heading, state) in [
            ("In order", CheckState::InOrder),
            ("Does not apply", CheckState::DoesNotApply),
            ("Not checked", CheckState::NotChecked),
        ] {
            list(
                &mut page,
                heading,
                report.diagnosis.checked.iter().filter(|entry| entry.state == state),
            );
        }
    }
    summary(&mut page, report, if whole { "" } else { "; add --verbose to list them" });
    page.text
}

/// Each finding in a few lines, with the first step to take.
fn brief(report: &DoctorReport, screen: TextScreen) -> String {
    let mut page = TextPage::with_verdict(report, screen);
    for (at, finding) in report.diagnosis.findings.iter().enumerate() {
        heading(&mut page, finding);
        if at >= MOST || (at > 0 && finding.severity == Severity::Note) {
            continue;
        }
        first_steps(&mut page, &finding.remedies);
        page.text.push('\n');
    }
    summary(&mut page, report, "; add --verbose for grounds, reasons and all remedies");
    page.text
}

/// The first remedy, up to the step that changes something.
fn first_steps(page: &mut TextPage, remedies: &[Remedy]) {
    let chain = remedies.chunk_by(|_, next| next.follows).next().unwrap_or_default();
    let changes = |step: &Remedy| step.changes.as_deref().is_some_and(|what| what != "nothing");
    let shown = chain.iter().position(changes).map_or(1, |at| at + 1).min(2);
    for (at, step) in chain.iter().take(shown).enumerate() {
        let mark = if at == 0 { "  → " } else { "    " };
        let place = match chain.len() {
            1 => String::new(),
            steps => format!("{} of {steps}: ", at + 1),
        };
        page.paragraph(&format!("{mark}{place}"), "    ", &step.what, PLAIN);
        command(page, step);
        if let Some(changes) = step.changes.as_ref().filter(|_| changes(step)) {
            page.paragraph("    Changes: ", "    ", changes, DIM);
        }
    }
}

/// Text as it grows.
struct TextPage {
    text: String,
    screen: TextScreen,
}

impl TextPage {
    fn with_verdict(report: &DoctorReport, screen: TextScreen) -> Self {
        let mut page = Self { text: String::new(), screen };
        let worst = report.diagnosis.findings.first().map(|finding| finding.severity);
        page.paragraph("", "", &report.diagnosis.verdict, style_of(worst).bold());
        page.text.push('\n');
        page
    }

    /// A text wrapped between the margins, `first` before its first line and
    /// `rest` before the others.
    fn paragraph(&mut self, first: &str, rest: &str, text: &str, style: Style) {
        let width = self.screen.width - first.chars().count().max(rest.chars().count());
        for (i, line) in wrap(&printable(text), width).lines().enumerate() {
            self.text.push_str(if i == 0 { first } else { rest });
            self.styled(line, style);
            self.text.push('\n');
        }
    }

    fn styled(&mut self, text: &str, style: Style) {
        // Writing to a string cannot fail.
        let _ = if self.screen.colours {
            write!(self.text, "{style}{text}{style:#}")
        } else {
            write!(self.text, "{text}")
        };
    }

    fn rule(&mut self) {
        let rule = "─".repeat(self.screen.width);
        self.styled(&rule, DIM);
        self.text.push('\n');
    }
}

/// Remedies of a finding, unless all are asked for; findings with a remedy on one screen.
const MOST: usize = 3;

/// A terminal's lines.
const SCREEN_LINES: usize = 25;

const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

fn style_of(severity: Option<Severity>) -> Style {
    let colour = match severity {
        Some(Severity::Error) => AnsiColor::Red,
        Some(Severity::Warning) => AnsiColor::Yellow,
        Some(Severity::Note) => AnsiColor::Cyan,
        None => AnsiColor::Green,
    };
    Style::new().fg_color(Some(colour.into()))
}

/// The name of a severity for people.
pub fn name_of(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
    }
}

/// What a clock read costs, in words.
pub fn read_cost(machine: &MachineSummary) -> String {
    machine.read_cost.map_or_else(|| "not measured".to_owned(), |cost| cost.to_string())
}

fn machine(page: &mut TextPage, machine: &MachineSummary) {
    let rows = [
        ("Machine", &machine.hardware),
        ("System", &machine.system),
        ("Clock", &machine.clocksource),
        ("Read cost", &read_cost(machine)),
    ];
    for (label, value) in rows {
        page.paragraph(&format!("{label:<11}"), &" ".repeat(11), value, PLAIN);
    }
}

fn heading(page: &mut TextPage, finding: &Finding) {
    let severity = name_of(finding.severity);
    let style = style_of(Some(finding.severity)).bold();
    // Colour codes take no columns, so the heading is coloured in parts.
    let heading = wrap(&printable(&finding.what), page.screen.width - severity.len() - 2);
    for (i, line) in heading.lines().enumerate() {
        match i {
            0 => page.styled(severity, style),
            _ => page.text.push_str(&" ".repeat(severity.len())),
        }
        page.text.push_str("  ");
        page.styled(line, PLAIN.bold());
        page.text.push('\n');
    }
}

fn finding(page: &mut TextPage, finding: &Finding, most: usize) {
    page.rule();
    heading(page, finding);
    page.text.push('\n');
    for line in &finding.evidence {
        page.paragraph("  │ ", "  │   ", line, DIM);
    }
    page.text.push('\n');
    page.paragraph("  ", "  ", &finding.why, PLAIN);
    page.text.push('\n');
    remedies(page, &finding.remedies, most);
    let source = format!("{}: {}", finding.rule, finding.source);
    page.paragraph("  ", "    ", &source, DIM);
}

/// Alternatives are marked `or`, steps that belong together numbered.
fn remedies(page: &mut TextPage, all: &[Remedy], most: usize) {
    let chains: Vec<&[Remedy]> = all.chunk_by(|_, next| next.follows).collect();
    for (at, chain) in chains.iter().take(most).enumerate() {
        let first = if at == 0 { "  → " } else { "or→ " };
        for (step, one) in chain.iter().enumerate() {
            let number = if chain.len() > 1 { format!("{}. ", step + 1) } else { String::new() };
            let mark = if step == 0 { first } else { "    " };
            remedy(page, one, &format!("{mark}{number}"));
        }
    }
    if let Some(more) = chains.len().checked_sub(most).filter(|more| *more > 0) {
        page.paragraph("    ", "    ", &format!("{more} more: add --verbose"), DIM);
        page.text.push('\n');
    }
}

fn remedy(page: &mut TextPage, remedy: &Remedy, mark: &str) {
    page.paragraph(mark, "    ", &remedy.what, PLAIN);
    command(page, remedy);
    if let Some(changes) = &remedy.changes {
        page.paragraph("    Changes: ", "    ", changes, DIM);
    }
    page.text.push('\n');
}

fn command(page: &mut TextPage, remedy: &Remedy) {
    let Some(command) = &remedy.command else { return };
    for line in command_lines(&printable(command), page.screen.width - 6) {
        page.text.push_str("      ");
        page.styled(&line, PLAIN.bold());
        page.text.push('\n');
    }
}

/// A command in lines that a shell reads as one: broken between words, never
/// within quotes.
fn command_lines(command: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in shell_words(command) {
        match lines.last_mut() {
            // Two columns stay free for ` \`.
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width - 2 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("  {word}"));
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The words of a command; quoted text stays together.
fn shell_words(command: &str) -> Vec<&str> {
    let mut quote = None;
    command
        .split(|c: char| {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), close) if open == close => quote = None,
                _ => {}
            }
            c == ' ' && quote.is_none()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

fn list<'a>(page: &mut TextPage, heading: &str, entries: impl Iterator<Item = &'a Checked>) {
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        return;
    }
    page.styled(heading, PLAIN.bold());
    page.text.push('\n');
    for entry in entries {
        let first = format!("  {:<23}", entry.rule);
        page.paragraph(&first, &" ".repeat(25), &entry.outcome, DIM);
    }
    page.text.push('\n');
}

fn summary(page: &mut TextPage, report: &DoctorReport, hint: &str) {
    let count =
        |state| report.diagnosis.checked.iter().filter(|entry| entry.state == state).count();
    let (fine, unknown) = (count(CheckState::InOrder), count(CheckState::NotChecked));
    let other = count(CheckState::DoesNotApply);
    let found: BTreeSet<_> =
        report.diagnosis.findings.iter().map(|finding| &finding.rule).collect();
    let found = found.len();
    let rules = found + report.diagnosis.checked.len();
    let line = format!(
        "{}: {found} with findings, {fine} in order, {other} that do not apply, {unknown} not \
         checked{hint}.",
        text::count(rules, "rule", "rules")
    );
    page.paragraph("", "", &line, DIM);
    let closed =
        report.diagnosis.checked.iter().filter(|entry| entry.outcome.contains("needs root"));
    let closed = closed.count();
    if closed > 0 {
        page.paragraph("", "", &format!("Run doctor as root to check {closed} more."), DIM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_so_that_a_shell_reads_it_as_one() {
        let command = "echo tsc | sudo tee \
                       /sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(
            command_lines(command, 74),
            [
                "echo tsc | sudo tee \\",
                "  /sys/devices/system/clocksource/clocksource0/current_clocksource"
            ]
        );
        assert_eq!(command_lines("chronyc tracking", 74), ["chronyc tracking"]);
    }

    #[test]
    fn quoted_words_stay_whole() {
        let command = "echo 'refclock PHC /dev/ptp0 poll 2' | tee \"a b\"";
        assert_eq!(
            shell_words(command),
            ["echo", "'refclock PHC /dev/ptp0 poll 2'", "|", "tee", "\"a b\""]
        );
    }
}
