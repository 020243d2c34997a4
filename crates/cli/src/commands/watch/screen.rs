//! Where a watch is shown: lines of text or JSON, or the live view.

use std::os::fd::BorrowedFd;

use facts::Sample;

use super::event::Line;
use super::text;
use super::watched::Watched;
use crate::error::CliError;
use crate::output;

/// The state at a sample.
pub(super) struct WatchState<'a> {
    /// The sample.
    pub(super) sample: &'a Sample,
    /// What was observed so far.
    pub(super) watched: &'a Watched,
}

/// Somewhere to show a watch.
pub(super) trait WatchScreen {
    /// Shows events.
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError>;

    /// Shows the state.
    fn state(&mut self, _shown: &WatchState<'_>) -> Result<(), CliError> {
        Ok(())
    }

    /// The descriptor that keys are read from.
    fn keys(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads the pressed keys and returns whether one of them ends the watch.
    fn ends_by_key(&mut self) -> Result<bool, CliError> {
        Ok(false)
    }

    /// Shows the last lines and restores the terminal.
    fn finish(&mut self, lines: &[Line]) -> Result<(), CliError> {
        self.lines(lines)
    }
}

/// A line of text for each event.
#[derive(Debug, Default)]
pub(super) struct PlainLines {
    /// Day of the first line, and of the last one, since 1970.
    days: Option<(u64, u64)>,
}

/// ns in a day.
const DAY_NS: u64 = 86_400_000_000_000;

impl PlainLines {
    /// The line, preceded by the days since the first line when they have
    /// changed: lines carry no date.
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

impl WatchScreen for PlainLines {
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let shown: String = lines.iter().map(|line| self.with_day(line)).collect();
        output::text(&shown)
    }
}

/// A JSON object for each event.
#[derive(Debug)]
pub(super) struct JsonLines;

impl WatchScreen for JsonLines {
    fn lines(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let shown: String = lines.iter().map(output::json_line).collect::<Result<_, _>>()?;
        output::text(&shown)
    }
}
