//! The times of day before a log's lines, where they go back.

use crate::kernel::line;

/// Programs write in turn: their lines are out of order by no more, s.
const DISORDER_S: f64 = 2.0;

/// A year without its number ends so, s.
const YEAR_END_S: f64 = 300.0 * 86_400.0;

/// A date and what is between it and the time of day, bytes.
const LONGEST_DATE: usize = 28;

/// `04:26:01`
const TIME: usize = 8;

/// So much of a line is kept, signs.
const KEPT: usize = 200;

/// What a log's stamps show.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    last: String,
    later: u64,
    earlier: u64,
    first_back: Option<StampsBack>,
}

/// Neighbouring lines whose stamps go back.
#[derive(Debug, Clone, PartialEq)]
pub struct StampsBack {
    /// By how much the first time, s.
    pub by_s: f64,
    /// How often.
    pub times: u64,
    /// The line before, and the line after.
    pub lines: [String; 2],
}

impl Stamps {
    /// One line of the log.
    pub(super) fn push(&mut self, text: &str) {
        let Some(end) = stamp_end(text.as_bytes()) else {
            // Between two parts of a log stands nothing, or a prompt.
            if text.len() < 6 || text.contains("$ ") || text.contains("# ") || text.contains("Boot")
            {
                self.last.clear();
            }
            return;
        };
        // Of one date, the text of a later time is the larger: most lines need no more.
        let last = self.last.as_bytes();
        let is_of_date = last.get(..end - TIME) == text.as_bytes().get(..end - TIME);
        if is_of_date && last.get(end - TIME..end) <= text.as_bytes().get(end - TIME..end) {
            self.later +=
                u64::from(last.get(end - TIME..end) < text.as_bytes().get(end - TIME..end));
        } else {
            self.compare(text, end);
        }
        self.last.clear();
        self.last.extend(text.chars().take(KEPT));
    }

    fn compare(&mut self, text: &str, end: usize) {
        let stamp_s = |text: &str, end: usize| line::time_of_day_s(text.get(..end)?);
        let last_end = stamp_end(self.last.as_bytes());
        let last_s = last_end.and_then(|end| stamp_s(&self.last, end));
        let Some((last_s, stamp_s)) = last_s.zip(stamp_s(text, end)) else { return };
        let by_s = last_s - stamp_s;
        if by_s < 0.0 {
            self.later += 1;
        } else if by_s > DISORDER_S && by_s < YEAR_END_S {
            self.earlier += 1;
            let short = |line: &str| line.trim().chars().take(KEPT).collect();
            let lines = [short(&self.last), short(text)];
            self.first_back.get_or_insert(StampsBack { by_s, times: 0, lines });
        }
    }

    /// Where they go back, unless the newest line is first.
    pub(super) fn finish(self, is_set: bool) -> Option<StampsBack> {
        let is_in_order = self.later >= 2 * self.earlier || (is_set && self.earlier == 1);
        self.first_back
            .filter(|_| is_in_order)
            .map(|back| StampsBack { times: self.earlier, ..back })
    }
}

/// Where the time of day at a line's start ends, after its date.
fn stamp_end(bytes: &[u8]) -> Option<usize> {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_time = |at: &usize| {
        bytes.get(at + 2) == Some(&b':')
            && bytes.get(at + 5) == Some(&b':')
            && [0, 1, 3, 4, 6, 7].iter().all(|place| is_digit(at + place))
    };
    let start = (6..LONGEST_DATE).find(is_time)?;
    // A date, and no time of day within a message.
    bytes[..start].iter().any(u8::is_ascii_digit).then_some(start + TIME)
}
