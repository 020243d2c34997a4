//! A line of a log: time, label, text.

use super::printable;
use super::table::{WIDTH, wrap};

/// Columns of time and label.
const INDENT: usize = 25;

/// Seconds in a day.
pub(crate) const DAY_S: u64 = 86_400;

/// A line, continued below where it is too long; without a final line end.
pub(crate) fn event_line(at_unix_ns: Option<u64>, label: &str, lines: &[String]) -> String {
    let mut text = format!("{}  {label:<11}", time_of_day(at_unix_ns));
    let lines: Vec<_> =
        lines.iter().map(|line| wrap(&printable(line), usize::from(WIDTH) - INDENT)).collect();
    for (index, line) in lines.iter().flat_map(|line| line.lines()).enumerate() {
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
