//! The events as lines of text or JSON.

use super::event::Line;
use super::text;
use crate::error::CliError;
use crate::output::{self, LineFormat};

/// Prints events in one format.
#[derive(Debug)]
pub(super) struct EventLines {
    format: LineFormat,
    /// Day of the first line, and of the last one, since 1970.
    days: Option<(u64, u64)>,
}

/// ns in a day.
const DAY_NS: u64 = 86_400_000_000_000;

impl EventLines {
    pub(super) fn new(format: LineFormat) -> Self {
        Self { format, days: None }
    }

    /// Prints a line of text or a JSON object for each event.
    pub(super) fn print(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let shown = lines.iter().map(|line| match self.format {
            LineFormat::Json => output::json_line(line),
            LineFormat::Text => Ok(self.with_day(line)),
        });
        output::text(&shown.collect::<Result<String, _>>()?)
    }

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
