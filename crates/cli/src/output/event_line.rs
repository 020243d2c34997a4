//! A line of a log: time, kind, message.

use super::printable;
use super::table::{WIDTH, wrap};

/// Columns of time and kind, before the message.
const INDENT: usize = 25;

/// Seconds in a day.
pub(crate) const DAY_S: u64 = 86_400;

/// A line, and below it what does not fit; without a final line end.
pub(crate) fn event_line(at_unix_ns: Option<u64>, kind: &str, messages: &[String]) -> String {
    let mut text = format!("{}  {kind:<11}", time_of_day(at_unix_ns));
    let width = usize::from(WIDTH) - INDENT;
    let wrapped: Vec<_> = messages.iter().map(|message| wrap(&printable(message), width)).collect();
    for (index, line) in wrapped.iter().flat_map(|message| message.lines()).enumerate() {
        if index > 0 {
            text.push('\n');
            text.push_str(&" ".repeat(INDENT));
        }
        text.push_str(line);
    }
    text
}

/// `05:12:03.250`, UTC.
pub(crate) fn time_of_day(unix_ns: Option<u64>) -> String {
    let Some(ns) = unix_ns else { return "--:--:--.---".into() };
    let (ms, s) = (ns / 1_000_000 % 1000, ns / 1_000_000_000 % DAY_S);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_day_and_a_time_before_1970() {
        assert_eq!(time_of_day(None), "--:--:--.---");
        assert_eq!(time_of_day(Some(86_399_999_999_999)), "23:59:59.999");
    }
}
