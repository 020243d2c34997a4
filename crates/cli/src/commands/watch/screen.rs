//! Where a watch is shown: lines of text or JSON, or the live view.

use std::os::fd::BorrowedFd;

use facts::Sample;

use super::event::Line;
use super::text;
use super::watched::Watched;
use crate::error::CliError;
use crate::output;

/// How things stand at a look.
pub(super) struct Shown<'a> {
    /// The look.
    pub(super) look: &'a Sample,
    /// What was made of it and those before.
    pub(super) watched: &'a Watched,
}

/// Somewhere to show a watch.
pub(super) trait Screen {
    /// Shows what happened.
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError>;

    /// Shows how things stand.
    fn state(&mut self, _shown: &Shown<'_>) -> Result<(), CliError> {
        Ok(())
    }

    /// Where keys come from.
    fn keys(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes the keys pressed: whether one of them ends the watch.
    fn key_says_end(&mut self) -> Result<bool, CliError> {
        Ok(false)
    }

    /// Shows the last lines and leaves things as they were.
    fn finish(&mut self, lines: &[Line]) -> Result<(), CliError> {
        self.lines(lines)
    }
}

/// A line of text an event.
#[derive(Debug, Default)]
pub(super) struct PlainLines {
    /// Day of the first line, and of the last one, since 1970.
    days: Option<(u64, u64)>,
}

/// ns in a day.
const DAY_NS: u64 = 86_400_000_000_000;

impl PlainLines {
    /// The line, and before it how many days it is since the first, when that
    /// has changed: lines carry no date.
    fn with_day(&mut self, line: &Line) -> String {
        let mut shown = String::new();
        if let Some(today) = line.at_unix_ns.map(|ns| ns / DAY_NS) {
            let (first, last) = self.days.unwrap_or((today, today));
            if last != today {
                let since = i128::from(today) - i128::from(first);
                shown.push_str(&format!("{since:+} d\n"));
            }
            self.days = Some((first, today));
        }
        shown.push_str(&text::line(line));
        shown.push('\n');
        shown
    }
}

impl Screen for PlainLines {
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError> {
        if lines.is_empty() {
            return Ok(());
        }
        let shown: String = lines.iter().map(|line| self.with_day(line)).collect();
        output::text(&shown)
    }
}

/// A JSON object an event.
#[derive(Debug)]
pub(super) struct JsonLines;

impl Screen for JsonLines {
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError> {
        if lines.is_empty() {
            return Ok(());
        }
        let shown: String = lines.iter().map(output::json_line).collect::<Result<_, _>>()?;
        output::text(&shown)
    }
}
