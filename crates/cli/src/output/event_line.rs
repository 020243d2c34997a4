//! A line of a log: time, kind, message.

use disruptions::text::time_of_day;
use facts::parse::printable;

use super::table::{width, wrap};

/// Columns of time and kind, before the message: `LEAP SECOND` and
/// `clocksource` are the longest.
const INDENT: usize = 26;

/// Columns of time and two spaces, before what continues a [`message_line`].
const MESSAGE_INDENT: usize = 16;

/// A line with a column for its kind, and what does not fit on it below;
/// without a line end at its end.
pub(crate) fn event_line(at_unix_ns: Option<u64>, kind: &str, message: &[String]) -> String {
    let begin = format!("{}  {kind:<11} ", time_of_day(at_unix_ns));
    begin + &indented(message, INDENT)
}

/// A line that begins with its kind and a colon, and what does not fit on it
/// below; without a line end at its end.
pub(crate) fn message_line(at_unix_ns: Option<u64>, kind: &str, message: &[String]) -> String {
    let (first, rest) = message.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut message = vec![format!("{kind}: {first}")];
    message.extend_from_slice(rest);
    format!("{}  {}", time_of_day(at_unix_ns), indented(&message, MESSAGE_INDENT))
}

/// The lines, wrapped, all but the first behind so many spaces.
fn indented(message: &[String], indent: usize) -> String {
    let wrapped: Vec<_> =
        message.iter().map(|part| wrap(&printable(part), width() - indent)).collect();
    let lines: Vec<_> = wrapped.iter().flat_map(|part| part.lines()).collect();
    lines.join(&format!("\n{}", " ".repeat(indent)))
}
