//! `parachron doctor --rules`: what every rule checks, and its source.
//! docs/reference/findings.md is the same list.

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide's page of rules.
    fn page() -> String {
        let mut page = String::from(
            "# Which faults does parachron doctor look for?\n\nEach finding of `parachron doctor` \
             names its rule.\n`parachron doctor --rules` prints the same list, with the source of \
             each rule.\n",
        );
        for rule in RULES {
            let _ = write!(page, "\n## {}\n\n{}\n", rule.name, escaped(rule.checks));
        }
        page
    }

    /// Escaped for Markdown, which leaves an underscore within a word alone.
    fn escaped(words: &str) -> String {
        let words: Vec<char> = words.chars().collect();
        let mut text = String::new();
        for (i, &c) in words.iter().enumerate() {
            let within = |at: Option<&char>| at.is_some_and(|c| c.is_alphanumeric());
            let literal = c == '_' && i > 0 && within(words.get(i - 1)) && within(words.get(i + 1));
            if matches!(c, '*' | '_' | '`' | '<' | '[' | '\\') && !literal {
                text.push('\\');
            }
            text.push(c);
        }
        text
    }

    #[test]
    fn the_guides_page_is_the_table_of_rules() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/findings.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            written,
            page(),
            "docs/reference/findings.md: UPDATE=1 cargo test -p parachron the_guides_page"
        );
    }
}
