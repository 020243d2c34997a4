//! `parachron doctor --rules`: what every rule checks, and its source.
//! docs/guide/findings.md is its Markdown.

use std::fmt::Write as _;
use std::process::ExitCode;

use doctor::rules::RULES;
use serde_json::json;

use super::markdown::plain;
use crate::error::CliError;
use crate::output::table::{Cell, Column, ReportTable, width, wrap};
use crate::output::{self, Format};

/// Prints the list.
pub(super) fn print(format: Format) -> Result<ExitCode, CliError> {
    match format {
        Format::Text => output::text(&text())?,
        Format::Markdown => output::text(&page())?,
        Format::Csv => output::text(&csv())?,
        Format::Json => {
            let rows = RULES.iter().map(
                |rule| json!({"rule": rule.name, "checks": rule.checks, "source": rule.source}),
            );
            output::json(&rows.collect::<Vec<_>>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text() -> String {
    let mut text = String::new();
    for rule in RULES {
        let _ = writeln!(text, "{}", rule.name);
        for paragraph in [rule.checks, rule.source] {
            for line in wrap(paragraph, width() - 4).lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        text.push('\n');
    }
    text
}

fn csv() -> String {
    let mut table = ReportTable::new("", ["rule", "checks", "source"].map(Column::words));
    for rule in RULES {
        table.row([rule.name, rule.checks, rule.source].map(Cell::from));
    }
    table.csv()
}

/// The guide's page of rules.
fn page() -> String {
    let mut page = String::from(
        "# Rules of parachron doctor\n\nEach finding of `parachron doctor` names its rule, and \
         each rule its source.\nThis page is the output of `parachron doctor --rules --format \
         markdown`.\n",
    );
    for rule in RULES {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\nSource: {}\n",
            rule.name,
            plain(rule.checks),
            plain(rule.source)
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guides_page_is_the_table_of_rules() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/findings.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            written,
            page(),
            "docs/guide/findings.md: UPDATE=1 cargo test -p parachron the_guides_page"
        );
    }
}
