//! `parachron doctor --rules`: what every rule checks, and its source.

use std::fmt::Write as _;
use std::process::ExitCode;

use doctor::rules::RULES;
use serde_json::json;

use crate::error::CliError;
use crate::output::table::{width, wrap};
use crate::output::{self, Format};

/// Prints the list.
pub(super) fn print(format: Format) -> Result<ExitCode, CliError> {
    match format {
        Format::Text => output::text(&text())?,
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
