//! The kernel's log of a machine: the lines that are about clocks, and their stamps.

use std::borrow::Cow;

use super::catalogue::CATALOGUE;
use super::{LogEvent, LogLine, line};
use crate::Fact;

/// More lines about clocks than any boot writes; the last ones matter.
pub(super) const MAX_LINES: usize = 2000;

/// The kept part of the log: the lines of the last boot that are about
/// clocks, in the form `[seconds] text`, without host name, process names or
/// anything else of the machine's owner.
pub fn reduce(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in log.lines() {
        let header = line::split(line);
        // Parsed as it will be read again: a name may resemble a clock.
        let text = without_names(header.text);
        match CATALOGUE.read(&text, Some("kernel")).event {
            _ if header.program.is_some_and(|program| program != "kernel") => {}
            // A log file spans many boots, each with its own clocks.
            Some(LogEvent::Boot { .. }) => kept.clear(),
            Some(_) => kept.push(match header.at_s {
                Some(at_s) => format!("[{at_s:12.6}] {text}\n"),
                None => format!("{text}\n"),
            }),
            None => {}
        }
    }
    kept.split_off(kept.len().saturating_sub(MAX_LINES)).concat()
}

/// The lines about clocks, in order.
pub fn parse(log: &str) -> Fact<Vec<LogLine>> {
    let lines = log.lines().filter_map(|line| {
        let header = line::split(line);
        let event = CATALOGUE.read(header.text, header.program).event?;
        let is_line = !matches!(event, LogEvent::Boot { .. });
        is_line.then(|| LogLine { at_s: header.at_s, text: header.text.to_owned(), event })
    });
    Fact::Known(lines.collect())
}

/// A soft lockup names the program that ran: `stuck for 22s! [name:123]`.
fn without_names(text: &str) -> Cow<'_, str> {
    match (text.find("! ["), text.ends_with(']')) {
        (Some(start), true) => Cow::Owned(format!("{}! [withheld]", &text[..start])),
        _ => Cow::Borrowed(text),
    }
}
