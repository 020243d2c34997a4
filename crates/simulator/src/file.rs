//! A scenario's text: read, or refused with its line.

use serde::de::IgnoredAny;

use crate::scenario::{Impossible, Scenario, ScenarioTable};

/// A text that is no scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// In this line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// Where each of a table's entries is in the text.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Places {
    fault: Vec<toml::Spanned<IgnoredAny>>,
    event: Vec<toml::Spanned<IgnoredAny>>,
}

/// The scenario of a text.
///
/// # Errors
/// What is no TOML, has a key that is unknown, or a figure that cannot be.
///
/// ```
/// use simulator::file;
///
/// let why = file::read("name = 'mine'\npoll_s = 1\n").unwrap_err();
/// assert_eq!(why.line, 2);
/// ```
pub fn read(text: &str) -> Result<Scenario, Unreadable> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Unreadable { line: line(text, at), why: error.message().replace('\n', ", ") }
    })
}

/// The line of what cannot be, if it is one entry's.
#[must_use]
pub fn line_of(text: &str, why: Impossible) -> Option<usize> {
    let (table, index) = match why {
        Impossible::Length(index, ..) | Impossible::Never(index) => (ScenarioTable::Fault, index),
        Impossible::NoServer(table, index, _) => (table, index),
        _ => return None,
    };
    let places: Places = toml::from_str(text).ok()?;
    let entries = if table == ScenarioTable::Fault { places.fault } else { places.event };
    Some(line(text, entries.get(index)?.span().start))
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
