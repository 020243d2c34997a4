//! A run of the program: comparisons made, recorded, shown while they are made,
//! and reported.

use std::path::Path;
use std::time::{Duration, Instant};

use ::records::Record;
use inspect::comparison::{
    ClockComparison, ComparedClocks, ComparisonReference, ComparisonSession, NothingMeasured,
    stopwatch,
};
use instruments::drift::budget::Budget;
use linux::wait::{Signals, WaitUntil};

use super::live::Live;
use super::person::Person;
use super::records::Sink;
use super::report::DriftReport;
use crate::error::{CliError, cannot_wait};

/// A run.
pub(super) struct DriftRun {
    pub(super) session: ComparisonSession,
    /// The kernel's name of this boot.
    pub(super) boot: String,
    pub(super) recorder: Option<Sink>,
    /// Findings in addition to the session's.
    pub(super) notes: Vec<String>,
    elapsed: Duration,
}

impl DriftRun {
    /// Nothing compared yet, nothing recorded.
    pub(super) fn new(
        clocks: ComparedClocks,
        references: Vec<ComparisonReference>,
        boot: String,
    ) -> Self {
        Self {
            session: ComparisonSession::new(clocks, references),
            boot,
            recorder: None,
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Records each comparison in a new file, or a folder of so many bytes.
    pub(super) fn record(&mut self, path: &Path, limit_bytes: u64) -> Result<(), CliError> {
        self.recorder = Some(Sink::create(path, limit_bytes)?);
        Ok(())
    }

    /// Ends the record.
    pub(super) fn finish_records(&mut self) -> Result<(), CliError> {
        self.recorder.take().map_or(Ok(()), Sink::finish)
    }

    /// Compares until `duration` is over, a signal comes, or every reference
    /// has stopped.
    ///
    /// # Errors
    /// A comparison cannot be recorded; the measurement ends there, with all
    /// that it has.
    pub(super) fn measure(&mut self, duration: Duration) -> Result<(), CliError> {
        let begun = Instant::now();
        let measured = self.rounds(begun, begun + duration);
        self.elapsed = begun.elapsed();
        self.session.finish();
        measured
    }

    fn rounds(&mut self, begun: Instant, end: Instant) -> Result<(), CliError> {
        let mut live = Live::new();
        let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?).for_reader();
        while let Some(round) = self.session.next(&wait, end).map_err(cannot_wait)? {
            self.write(&round.reference, &round.compared)?;
            if let Some(why) = round.failed_at_first {
                live.note(&format!("the first comparison with {} failed: {why}", round.reference));
            }
            live.show(self.session.pairs(), begun.elapsed());
        }
        Ok(())
    }

    /// Prompts a person for the stopwatch's start and its reading; where an
    /// earlier run has the start, for the reading only.
    pub(super) fn by_stopwatch(&mut self) -> Result<(), CliError> {
        let mut person = Person::at_terminal();
        let begun = Instant::now();
        if !self.session.pairs().iter().any(|pair| pair.reference == stopwatch::NAME) {
            let start = person.starts(self.session.clocks())?;
            self.add_by_hand(&start)?;
        }
        let (at, shown) = person.stops(self.session.clocks())?;
        self.elapsed = at.saturating_duration_since(begun);
        self.add_by_hand(&shown)?;
        self.session.finish();
        self.notes.push("Start and end were timed by hand: ± 0.2 s is assumed for each.".into());
        Ok(())
    }

    fn add_by_hand(&mut self, compared: &[ClockComparison]) -> Result<(), CliError> {
        self.session.add(stopwatch::NAME, compared);
        self.write(stopwatch::NAME, compared)
    }

    /// Records comparisons.
    pub(super) fn write(
        &mut self,
        reference: &str,
        compared: &[ClockComparison],
    ) -> Result<(), CliError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let record = |one: &ClockComparison| {
            Record::new(&self.boot, reference, one.clock.name(), one.reading)
        };
        recorder.write(&compared.iter().map(record).collect::<Vec<_>>())
    }

    /// The result.
    ///
    /// # Errors
    /// Not one comparison was made.
    pub(super) fn report(&self, budget: Budget) -> Result<DriftReport, CliError> {
        let outcome = self.session.outcome(budget).map_err(|nothing| nothing_measured(&nothing))?;
        Ok(DriftReport::from_outcome(outcome, budget, self.elapsed, self.notes.clone()))
    }
}

fn nothing_measured(nothing: &NothingMeasured) -> CliError {
    let running = if nothing.has_chronyd { "run `systemctl start chrony`, or " } else { "" };
    CliError::Failed {
        cause: nothing.to_string(),
        remedy: format!(
            "{running}use another reference (`--ntp`, `--phc`, `--vmclock`, `--chrony`, \
             `--stopwatch`) or another --clock"
        ),
    }
}

#[cfg(test)]
mod tests;
