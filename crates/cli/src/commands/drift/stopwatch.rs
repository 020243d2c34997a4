//! A person with a stopwatch as the reference: Enter at the start, Enter at
//! the end, and what the stopwatch shows.

use std::io::{BufRead, StdinLock, Write};
use std::time::{Duration, Instant};

use instruments::drift::{Nesting, Reading, Span};

use super::clocks::{Clocks, Compared, Stamp};
use crate::error::CliError;

/// The reference's name.
pub(super) const NAME: &str = "stopwatch";

/// How far apart a finger on Enter and one on the stopwatch may be, ns.
const REACTION_NS: u64 = 200_000_000;

/// The stopwatch's start, ns: room for a reaction before it.
const START_NS: u64 = 1_000_000_000;

/// Who presses Enter.
pub(super) struct Person<A> {
    answers: A,
}

impl Person<StdinLock<'static>> {
    /// At standard input.
    pub(super) fn at_terminal() -> Self {
        Self { answers: std::io::stdin().lock() }
    }
}

impl<A: BufRead> Person<A> {
    /// All clocks at the stopwatch's start.
    ///
    /// # Errors
    /// The answers end.
    pub(super) fn starts(&mut self, clocks: &Clocks) -> Result<Vec<Compared>, CliError> {
        self.asked("Start the stopwatch, and press Enter at the same moment.")?;
        Ok(readings(&clocks.now(), START_NS))
    }

    /// All clocks at a moment, when that was, and what the stopwatch showed:
    /// asked until it is a time, for the moment does not come again.
    ///
    /// # Errors
    /// The answers end.
    pub(super) fn stops(&mut self, clocks: &Clocks) -> Result<(Instant, Vec<Compared>), CliError> {
        self.asked("Read it after some minutes, and press Enter at the same moment.")?;
        let (at, now) = (Instant::now(), clocks.now());
        let mut told = self.asked("What did it show? Seconds, or minutes:seconds.")?;
        let shown = loop {
            match parse(&told) {
                Some(shown) => break shown,
                None => {
                    told = self.asked(&format!(
                        "{told:?} is no time on a stopwatch. Seconds such as 300.4, or minutes \
                         and seconds such as 5:00.4?"
                    ))?;
                }
            }
        };
        let shown_ns = u64::try_from(shown.as_nanos()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
        Ok((at, readings(&now, START_NS + shown_ns)))
    }

    fn asked(&mut self, question: &str) -> Result<String, CliError> {
        // On standard error, so that the result alone is on standard output.
        let _ = writeln!(std::io::stderr(), "{question}");
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(1..) => Ok(answer.trim().to_owned()),
            Ok(0) => Err(no_answer("standard input has ended")),
            Err(error) => Err(no_answer(&error.to_string())),
        }
    }
}

fn readings(stamp: &Stamp, at_ns: u64) -> Vec<Compared> {
    let reference = Span { before: at_ns - REACTION_NS, after: at_ns + REACTION_NS };
    let shown = stamp.iter().enumerate();
    shown
        .filter_map(|(clock, shown)| {
            let nesting = Nesting::ReferenceOutside;
            Some(Compared { clock, reading: Reading { clock: (*shown)?, reference, nesting } })
        })
        .collect()
}

fn no_answer(why: &str) -> CliError {
    CliError::Failed {
        cause: format!("the stopwatch was not told: {why}"),
        remedy: "a terminal to press Enter at".into(),
    }
}

/// `300`, `300.4`, `5:00.4`, `1:05:00`.
fn parse(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    for part in text.split(':') {
        let is_number = part.chars().all(|c| c.is_ascii_digit() || c == '.');
        seconds = seconds * 60.0 + part.parse::<f64>().ok().filter(|_| is_number)?;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use super::super::clocks::ClockName;
    use super::*;

    #[test]
    fn a_slip_of_the_finger_loses_nothing() {
        let facts = inspect::read(&inspect::tree::Tree::live());
        let clocks = Clocks::find(&[ClockName::Monotonic], None, &facts);
        let mut person = Person { answers: &b"\n5:o0\n\n5:00\n"[..] };
        let (_, readings) = person.stops(&clocks).unwrap();
        assert_eq!(readings[0].reading.reference.before, START_NS + 300_000_000_000 - REACTION_NS);
        let mut gone = Person { answers: &b"\n5:o0\n"[..] };
        assert!(gone.stops(&clocks).unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn what_a_stopwatch_shows_is_understood() {
        for (text, ms) in [("300", 300_000), ("5:00.4", 300_400), ("1:05:00", 3_900_000)] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "-3", "5:", "1e9", "five", "99999999999999999999999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
