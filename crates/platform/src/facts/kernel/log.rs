//! The kernel's log: which of its lines are about clocks, and their stamps.

use std::borrow::Cow;

use super::{LogLine, event};
use crate::fact::Fact;

/// More lines about clocks than any boot writes; the last ones matter.
const MAX_LINES: usize = 2000;

/// What is kept of the log: the lines of the last boot that are about
/// clocks, in the form `[seconds] text`, without host name, process names or
/// anything else of the machine's owner.
pub fn reduce(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in log.lines() {
        let (at_s, text) = split(line);
        if text.starts_with("Linux version ") {
            // A log file goes on over many boots, each with clocks of its own.
            kept.clear();
        }
        if event::of(text).is_some() {
            let text = without_names(text);
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
        Some(LogLine { at_s, text: text.to_owned(), event: event::of(text)? })
    });
    Fact::Known(lines.collect())
}

/// A line's seconds since boot, where it has a stamp, and its text. Takes the
/// forms of klogctl (`<6>[    0.000010] text`), dmesg, /dev/kmsg
/// (`6,339,5140900,-;text`) and syslog (`Nov 21 04:26:01 host kernel: [ … ]`).
fn split(line: &str) -> (Option<f64>, &str) {
    let mut rest = line;
    if let Some((head, text)) = line.split_once(" kernel: ")
        && !head.starts_with(['[', '<'])
    {
        rest = text;
    } else if let Some(answer) = split_kmsg(line) {
        return answer;
    }
    rest = strip_level(rest).trim_start();
    let mut at_s = None;
    // Stamp, then with CONFIG_PRINTK_CALLER the writer: `[    1.0][    T1]`.
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let inside = inside.trim();
        let stamp = inside.parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0);
        if stamp.is_none() && !is_writer(inside) && !is_date(inside) {
            break;
        }
        at_s = at_s.or(stamp);
        rest = after.trim_start();
    }
    (at_s, rest)
}

fn strip_level(line: &str) -> &str {
    match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((level, rest)) if level.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    }
}

fn split_kmsg(line: &str) -> Option<(Option<f64>, &str)> {
    let (head, text) = line.split_once(';')?;
    let mut numbers = head.split(',');
    let _level: u32 = numbers.next()?.parse().ok()?;
    let _sequence: u64 = numbers.next()?.parse().ok()?;
    let at_us: u64 = numbers.next()?.parse().ok()?;
    Some((Some(at_us as f64 / 1e6), text.trim_start()))
}

/// `T123` or `C0`.
fn is_writer(inside: &str) -> bool {
    let number = inside.strip_prefix(['T', 'C']);
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
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
