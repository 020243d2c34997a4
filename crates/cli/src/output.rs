//! How results leave the program: one form each, chosen by `--format`.
//!
//! Everything a command prints goes through [`text`] or [`json`], and what it
//! saves through [`file()`]: they alone know what a closed pipe and a full disk
//! mean.

pub(crate) mod figures;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::CliError;

/// The forms a result can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people, 80 columns
    Text,
    /// One JSON document; its schema is in docs/schema
    Json,
    /// Tables for a report
    Markdown,
    /// One row a line, with a heading
    Csv,
}

/// Writes `text` to standard output, whole or not at all as far as the
/// system lets us know.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes `value` to standard output as one JSON document.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let mut document = serde_json::to_string_pretty(value).map_err(|error| CliError::Failed {
        cause: format!("cannot form the JSON document: {error}"),
        remedy: "another --format, and report this: the program's own types should not do this"
            .into(),
    })?;
    document.push('\n');
    text(&document)
}

/// Writes `content` to the file at `path`.
pub(crate) fn file(path: &Path, content: &str) -> Result<(), CliError> {
    let failed = |error| CliError::Write { path: path.into(), error };
    let mut file = std::fs::File::create(path).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    // A disk that is full or gone often says so only here.
    match file.sync_all() {
        // A pipe or terminal given as the path has nothing to synchronise.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        other => other.map_err(failed),
    }
}

/// `text` without anything that could move a terminal's cursor: what a file
/// or a log of the machine holds is not ours to trust.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
