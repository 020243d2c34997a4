//! The times of day before a log's lines, where they go back.

use crate::kernel::line;

/// Programs write in turn: their lines are out of order by no more, s.
const DISORDER_S: f64 = 2.0;

/// A year without its number ends so, s.
const YEAR_END_S: f64 = 300.0 * 86_400.0;

/// A date and what is between it and the time of day, bytes.
const LONGEST_DATE: usize = 28;

/// What a log's stamps show.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    last: Option<(String, f64)>,
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
        let Some(stamp_s) = stamp_s(text) else {
            // Between two parts of a log stands nothing, or a prompt.
            if text.len() < 6 || text.contains("$ ") || text.contains("# ") || text.contains("Boot")
            {
                self.last = None;
            }
            return;
        };
        let Some((before, last_s)) = self.last.replace((text.to_owned(), stamp_s)) else { return };
        let by_s = last_s - stamp_s;
        if by_s < 0.0 {
            self.later += 1;
        } else if by_s > DISORDER_S && by_s < YEAR_END_S {
            self.earlier += 1;
            let short = |line: &str| line.trim().chars().take(200).collect();
            let lines = [short(&before), short(text)];
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

/// The time of day at a line's start, with its date.
fn stamp_s(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_time = |at: usize| {
        [0, 1, 3, 4, 6, 7].iter().all(|place| is_digit(at + place))
            && bytes[at + 2] == b':'
            && bytes[at + 5] == b':'
    };
    let start = (0..LONGEST_DATE.min(bytes.len())).find(|at| is_time(*at))?;
    // A date, and no time of day within a message.
    let date = text.get(..start)?;
    let is_date = date.contains(|c: char| c.is_ascii_digit()) && date.len() >= 6;
    is_date.then(|| line::time_of_day_s(text.get(..start + 8)?)).flatten()
}
