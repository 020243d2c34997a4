//! The kernel's log: which of its lines are about clocks, and their stamps.

use std::borrow::Cow;

use super::{LogLine, event};
use crate::Fact;

/// More lines about clocks than any boot writes; the last ones matter.
pub(super) const MAX_LINES: usize = 2000;

/// The kept part of the log: the lines of the last boot that are about
/// clocks, in the form `[seconds] text`, without host name, process names or
/// anything else of the machine's owner.
pub fn reduce(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in log.lines() {
        let (at_s, text) = split(line);
        if text.starts_with("Linux version ") {
            // A log file spans many boots, each with its own clocks.
            kept.clear();
        }
        // Parsed as it will be read again: a name may resemble a clock.
        let text = without_names(text);
        if event::parse(&text).is_some() {
            kept.push(match at_s {
                Some(at_s) => format!("[{at_s:12.6}] {text}\n"),
                None => format!("{text}\n"),
            });
        }
    }
    kept.split_off(kept.len().saturating_sub(MAX_LINES)).concat()
}

/// The lines about clocks, in order.
pub fn parse(log: &str) -> Fact<Vec<LogLine>> {
    let lines = log.lines().filter_map(|line| {
        let (at_s, text) = split(line);
        Some(LogLine { at_s, text: text.to_owned(), event: event::parse(text)? })
    });
    Fact::Known(lines.collect())
}

/// A line's seconds since boot, where it has a stamp, and its text. Takes the
/// forms of klogctl (`<6>[    0.000010] text`), dmesg, /dev/kmsg
/// (`6,339,5140900,-;text`) and syslog (`Nov 21 04:26:01 host kernel: [ … ]`).
pub(super) fn split(line: &str) -> (Option<f64>, &str) {
    let (mut at_s, mut text) = (None, line.trim());
    while let Some((stamp, rest)) = kmsg(text).or_else(|| bracket(text)).or_else(|| header(text)) {
        at_s = at_s.or(stamp);
        text = rest.trim_start();
    }
    (at_s, text)
}

/// Strips a prefix of a text: its stamp, if it is one.
type Taken<'t> = Option<(Option<f64>, &'t str)>;

fn kmsg(line: &str) -> Taken<'_> {
    let (head, text) = line.split_once(';')?;
    let mut numbers = head.split(',');
    let _level: u32 = numbers.next()?.parse().ok()?;
    let _sequence: u64 = numbers.next()?.parse().ok()?;
    let at_us: u64 = numbers.next()?.parse().ok()?;
    Some((Some(at_us as f64 / 1e6), text))
}

/// `<6>`; the stamp `[    0.000010]`; with CONFIG_PRINTK_CALLER the writer
/// `[    T1]` after it; or the date that `dmesg -T` puts instead.
fn bracket(line: &str) -> Taken<'_> {
    if let Some((level, rest)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return all_digits(level).then_some((None, rest));
    }
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    let stamp = inside.parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0);
    (stamp.is_some() || is_writer(inside) || is_date(inside)).then_some((stamp, rest))
}

/// `Nov 21 04:26:01 host kernel: `, or with an ISO date.
fn header(line: &str) -> Taken<'_> {
    let (head, text) = line.split_once(" kernel: ")?;
    let is_time = |word: &str| word.split(':').filter(|part| part.len() >= 2).count() >= 3;
    head.split_whitespace().any(is_time).then_some((None, text))
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `T123` or `C0`.
fn is_writer(inside: &str) -> bool {
    inside.strip_prefix(['T', 'C']).is_some_and(all_digits)
}

/// `Wed May 25 05:27:59 2022`, as `dmesg -T` writes.
fn is_date(inside: &str) -> bool {
    let words: Vec<_> = inside.split_whitespace().collect();
    words.len() == 5 && words[3].split(':').count() == 3
}

/// A soft lockup names the program that ran: `stuck for 22s! [name:123]`.
fn without_names(text: &str) -> Cow<'_, str> {
    match (text.find("! ["), text.ends_with(']')) {
        (Some(start), true) => Cow::Owned(format!("{}! [withheld]", &text[..start])),
        _ => Cow::Borrowed(text),
    }
}
