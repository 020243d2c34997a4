//! A person with a stopwatch: Enter at the start, Enter at the end, and what it
//! shows then.

use std::io::{BufRead, StdinLock, Write};
use std::time::{Duration, Instant};

use inspect::comparison::stopwatch::{compared, parse};
use inspect::comparison::{ClockComparison, ComparedClocks};

use crate::error::CliError;

/// Who presses Enter.
pub(super) struct Person<A> {
    input: A,
}

impl Person<StdinLock<'static>> {
    /// At standard input.
    pub(super) fn at_terminal() -> Self {
        Self { input: std::io::stdin().lock() }
    }
}

impl<A: BufRead> Person<A> {
    /// All clocks at the stopwatch's start.
    ///
    /// # Errors
    /// Standard input ends.
    pub(super) fn starts(
        &mut self,
        clocks: &ComparedClocks,
    ) -> Result<Vec<ClockComparison>, CliError> {
        self.prompted("Start the stopwatch, and press Enter at the same moment.")?;
        Ok(compared(&clocks.now(), Duration::ZERO))
    }

    /// All clocks at a moment, when that was, and what the stopwatch showed:
    /// the prompt is repeated until it is a time, for the moment does not come
    /// again.
    ///
    /// # Errors
    /// Standard input ends.
    pub(super) fn stops(
        &mut self,
        clocks: &ComparedClocks,
    ) -> Result<(Instant, Vec<ClockComparison>), CliError> {
        self.prompted("Read it after some minutes, and press Enter at the same moment.")?;
        let (at, now) = (Instant::now(), clocks.now());
        let mut typed = self.prompted("What did it show? Type seconds, or minutes:seconds.")?;
        loop {
            if let Some(shown) = parse(&typed) {
                return Ok((at, compared(&now, shown)));
            }
            typed = self.prompted(&format!(
                "{typed:?} is not a time on a stopwatch. Type seconds such as 300.4, or minutes and \
                 seconds such as 5:00.4."
            ))?;
        }
    }

    fn prompted(&mut self, prompt: &str) -> Result<String, CliError> {
        // On standard error, so that the result alone is on standard output.
        let _ = writeln!(std::io::stderr(), "{prompt}");
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            Ok(0) => Err(no_input("standard input has ended")),
            Err(error) => Err(no_input(&error.to_string())),
        }
    }
}

fn no_input(why: &str) -> CliError {
    CliError::Failed {
        cause: format!("no reading of the stopwatch: {why}"),
        remedy: "run `parachron drift --stopwatch` in a terminal".into(),
    }
}

#[cfg(test)]
mod tests {
    use inspect::comparison::ClockName;

    use super::*;

    #[test]
    fn a_slip_of_the_finger_loses_nothing() {
        let facts = inspect::read(&inspect::tree::Tree::live());
        let clocks = ComparedClocks::find(&[ClockName::Monotonic], None, &facts);
        let mut person = Person { input: &b"\n5:o0\n\n5:00\n"[..] };
        let (_, readings) = person.stops(&clocks).unwrap();
        let shown = compared(&clocks.now(), Duration::from_secs(300));
        assert_eq!(readings[0].reading.reference, shown[0].reading.reference);
        let mut gone = Person { input: &b"\n5:o0\n"[..] };
        assert!(gone.stops(&clocks).unwrap_err().to_string().contains("has ended"));
    }
}
