//! The report as Markdown, for a ticket or a wiki.

use std::fmt::Write as _;

use doctor::finding::{Checked, Finding};
use doctor::report::DoctorReport;
use doctor::report_text::{name_of, read_cost};

use crate::output::printable;

/// The report.
pub(super) fn render(report: &DoctorReport, verbose: bool) -> String {
    let mut text = format!("**{}**\n\n", plain(&report.diagnosis.verdict));
    let machine = &report.machine;
    for (label, value) in [
        ("Machine", &machine.hardware),
        ("System", &machine.system),
        ("Clock", &machine.clocksource),
        ("Read cost", &read_cost(machine)),
    ] {
        let _ = writeln!(text, "- {label}: {}", plain(value));
    }
    for finding in &report.diagnosis.findings {
        text.push_str(&self::finding(finding));
    }
    if verbose {
        text.push_str("\n## Checked\n\n| rule | | outcome |\n| --- | --- | --- |\n");
        for entry in &report.diagnosis.checked {
            text.push_str(&row(entry));
        }
    }
    text
}

/// One finding.
pub(crate) fn finding(finding: &Finding) -> String {
    let mut text = format!("\n## {}: {}\n\n", name_of(finding.severity), plain(&finding.what));
    text.push_str(&code(&finding.evidence.join("\n")));
    let _ = write!(text, "\n{}\n", plain(&finding.why));
    for remedy in &finding.remedies {
        let _ = write!(text, "\n- {}\n", plain(&remedy.what));
        if let Some(command) = &remedy.command {
            for line in code(command).lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        if let Some(changes) = &remedy.changes {
            let _ = writeln!(text, "  Changes: {}", plain(changes));
        }
    }
    let _ = write!(text, "\nRule `{}`; {}\n", finding.rule, plain(&finding.source));
    text
}

fn row(entry: &Checked) -> String {
    let state = if entry.state == doctor::finding::CheckState::NotChecked {
        "not checked"
    } else {
        "in order"
    };
    format!("| {} | {state} | {} |\n", entry.rule, plain(&entry.outcome).replace('|', "\\|"))
}

/// A block of code whose content cannot end it.
fn code(content: &str) -> String {
    let lines: Vec<String> = content.lines().map(printable).collect();
    let fence = if lines.iter().any(|line| line.contains("```")) { "````" } else { "```" };
    format!("{fence}\n{}\n{fence}\n", lines.join("\n"))
}

/// Text of the report or the machine, escaped for Markdown.
pub(super) fn plain(words: &str) -> String {
    let words: Vec<char> = printable(words).chars().collect();
    let mut text = String::new();
    for (i, &c) in words.iter().enumerate() {
        // Markdown leaves an underscore within a word alone.
        let within = |at: Option<&char>| at.is_some_and(|c| c.is_alphanumeric());
        let literal = c == '_' && i > 0 && within(words.get(i - 1)) && within(words.get(i + 1));
        if matches!(c, '*' | '_' | '`' | '<' | '[' | '\\') && !literal {
            text.push('\\');
        }
        text.push(c);
    }
    text
}
