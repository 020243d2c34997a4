//! A line that may lack its end, as a mail or a terminal breaks it off, and its rest.

use crate::kernel::catalogue::{CATALOGUE, LONGEST_SIGN, Reading, Scan};
use crate::kernel::{LogEvent, line};

/// Mail breaks a line of the watchdog, of some 150 signs, into at most this many.
pub(super) const MOST_JOINED: u32 = 4;

/// A line that is broken off has at least so many signs.
pub(super) const BROKEN_LINE: usize = 60;

/// The longest message, bytes.
pub(super) const LONGEST_MESSAGE: usize = 4096;

/// A line that waits for its end.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) text: String,
    pub(super) reading: Reading,
    pub(super) lines: u32,
    /// What the text has signs of.
    has_rows: bool,
    pub(super) is_about_time: bool,
}

impl Held {
    pub(super) fn new(text: String, reading: Reading, scan: &Scan, lines: u32) -> Self {
        let is_about_time = scan.is_about_time;
        Self { text, reading, has_rows: scan.has_rows(), is_about_time, lines }
    }

    /// The held line and its rest, where that makes more of a message than the line alone.
    pub(super) fn join(&self, text: &str, scan: &Scan) -> Option<Held> {
        let is_alike = text.as_bytes().first() == self.text.as_bytes().first();
        if is_alike && !self.reading.is_unfinished && !self.text.starts_with(['>', '|', ' ']) {
            return None;
        }
        // Most lines have no word of a message, nor has the place where they meet.
        if !self.has_rows && !scan.has_rows() && !has_rows_between(&self.text, text) {
            return None;
        }
        let rest = line::split(text);
        if rest.is_start || rest.text.is_empty() {
            return None;
        }
        let alone = CATALOGUE.read(rest.text, rest.program);
        let beats = |reading: &Reading, other: &Reading| {
            reading.event.is_some() && (other.event.is_none() || reading.row < other.row)
        };
        let mut unfinished = None;
        for blank in [" ", ""] {
            let joined = format!("{}{blank}{}", self.text.trim_end(), rest.text);
            let line = line::split(&joined);
            let reading = CATALOGUE.read(line.text, line.program);
            let is_unfinished = reading.is_unfinished;
            let is_more = beats(&reading, &self.reading) && beats(&reading, &alone);
            let scan = CATALOGUE.scan(&joined);
            let joined = Held::new(joined, reading, &scan, self.lines + 1);
            if is_more && !is_unfinished {
                return Some(joined);
            }
            if is_more || (is_unfinished && self.reading.is_unfinished && alone.event.is_none()) {
                unfinished.get_or_insert(joined);
            }
        }
        unfinished
    }
}

/// Whether a line may lack its end.
pub(super) fn is_open(text: &str, reading: &Reading) -> bool {
    let is_open = match reading.event {
        None => text.len() >= BROKEN_LINE,
        Some(LogEvent::Other) => true,
        Some(_) => false,
    };
    (is_open || reading.is_unfinished || text.ends_with('\'')) && text.len() < LONGEST_MESSAGE
}

/// Whether a word of a message begins in one line and ends in the next.
fn has_rows_between(line: &str, next: &str) -> bool {
    let (line, next) = (line.trim_end().as_bytes(), line::without_marks(next).as_bytes());
    let line = &line[line.len().saturating_sub(LONGEST_SIGN)..];
    let next = &next[..next.len().min(LONGEST_SIGN)];
    CATALOGUE.scan([line, next].concat()).has_rows()
}
