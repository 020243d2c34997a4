//! The times of day before a log's lines, where they go back.

use super::PrintedTimes;
use crate::kernel::line;

/// Programs write in turn: their lines are out of order by no more, s.
const DISORDER_S: f64 = 2.0;

/// A year without its number ends so, s.
const YEAR_END_S: f64 = 300.0 * 86_400.0;

const DAY_S: f64 = 86_400.0;

/// 1972, in which stamps without a year are, s; a year of the last century is before twice that.
const UNSET_YEAR_S: f64 = 730.0 * DAY_S;

/// A clock without a battery is set so long after its start at most, s.
const UNSET_S: f64 = 0.5 * DAY_S;

/// A log of one machine leaves out so many days, d.
const UNSET_DAYS: f64 = 20.0;

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
    /// Something stands between the last stamped line and this one.
    is_parted: bool,
    later: u64,
    earlier: u64,
    first_back: Option<StampsBack>,
    /// Where they go forward as those of a clock that is set at boot.
    pub(super) first_forward: Option<PrintedTimes>,
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
            let is_between = || {
                let mut pairs = text.as_bytes().windows(2);
                pairs.any(|pair| matches!(pair, b"$ " | b"# ")) || text.contains("Boot")
            };
            self.is_parted = self.is_parted || text.len() < 6 || is_between();
            return;
        };
        // Of one date, the text of a later time is the larger: most lines need no more.
        let last = self.last.as_bytes();
        let is_of_date = last.get(..end - TIME) == text.as_bytes().get(..end - TIME);
        if is_of_date && last.get(end - TIME..end) <= text.as_bytes().get(end - TIME..end) {
            self.later +=
                u64::from(last.get(end - TIME..end) < text.as_bytes().get(end - TIME..end));
        } else if !self.is_parted {
            self.compare(text, end);
        }
        self.is_parted = false;
        self.last.clear();
        self.last.push_str(line::first_chars(text, KEPT));
    }

    fn compare(&mut self, text: &str, end: usize) {
        let stamp_s = text.get(..end).and_then(line::time_of_day_s);
        let Some((last_s, stamp_s)) = self.last_s().zip(stamp_s) else { return };
        let by_s = last_s - stamp_s;
        let short = |line: &str| line::first_chars(line.trim(), KEPT).to_owned();
        if by_s < 0.0 {
            self.later += 1;
            // A clock that no one has set yet shows the first hours of a year, or of 1970.
            let is_unset = (last_s - UNSET_YEAR_S).rem_euclid(366.0 * DAY_S) < UNSET_S
                || (last_s < UNSET_YEAR_S && stamp_s > 2.0 * UNSET_YEAR_S);
            let is_set = text.contains("setting system clock to");
            if by_s < if is_set { -DAY_S } else { -UNSET_DAYS * DAY_S } && (is_set || is_unset) {
                self.first_forward.get_or_insert(PrintedTimes {
                    of: if is_set { "set-by-rtc" } else { "set-at-boot" },
                    by_s: -by_s,
                    year: 0,
                    lines: vec![short(&self.last), short(text)],
                });
            }
        } else if by_s > DISORDER_S && by_s < YEAR_END_S {
            self.earlier += 1;
            let lines = [short(&self.last), short(text)];
            self.first_back.get_or_insert(StampsBack { by_s, times: 0, lines });
        }
    }

    /// The time of the last line that has one.
    pub(super) fn last_s(&self) -> Option<f64> {
        let end = stamp_end(self.last.as_bytes())?;
        line::time_of_day_s(self.last.get(..end)?)
    }

    /// That line and its time.
    pub(super) fn last_line(&self) -> Option<(f64, String)> {
        Some((self.last_s()?, self.last.trim().to_owned()))
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
        bytes.get(at + 5) == Some(&b':')
            && [0, 1, 3, 4, 6, 7].iter().all(|place| is_digit(at + place))
    };
    let colons = bytes.iter().enumerate().take(LONGEST_DATE + 2).skip(8);
    let start = colons.filter(|(_, byte)| **byte == b':').map(|(at, _)| at - 2).find(is_time)?;
    // A date, and no time of day within a message.
    bytes[..start].iter().any(u8::is_ascii_digit).then_some(start + TIME)
}
