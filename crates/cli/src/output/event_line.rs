//! A line of a log: when, what kind, what is said.

use super::printable;
use super::table::{WIDTH, wrap};

/// Columns of time and kind, before what is said.
const INDENT: usize = 25;

/// Seconds in a day.
pub(crate) const DAY_S: u64 = 86_400;

/// A line, and what does not fit on it below; without a line end at its end.
pub(crate) fn event_line(at_unix_ns: Option<u64>, kind: &str, said: &[String]) -> String {
    let mut text = format!("{}  {kind:<11}", time_of_day(at_unix_ns));
    let said: Vec<_> =
        said.iter().map(|said| wrap(&printable(said), usize::from(WIDTH) - INDENT)).collect();
    for (index, said) in said.iter().flat_map(|said| said.lines()).enumerate() {
        if index > 0 {
            text.push('\n');
            text.push_str(&" ".repeat(INDENT));
        }
        text.push_str(said);
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
    fn a_day_ends_and_a_time_before_1970_is_none() {
        assert_eq!(time_of_day(None), "--:--:--.---");
        assert_eq!(time_of_day(Some(86_399_999_999_999)), "23:59:59.999");
    }
}
