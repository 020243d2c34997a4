//! A run of the program: comparisons made, shown while they are made, and reported.

use std::time::{Duration, Instant};

use inspect::comparison::{
    ComparedClocks, ComparisonReference, ComparisonSession, NothingMeasured,
};
use instruments::drift::Budget;
use linux::wait::{Signals, WaitUntil};

use super::report::DriftReport;
use crate::commands::drift::Live;
use crate::error::{CliError, cannot_wait};

/// A run.
pub(super) struct DriftRun {
    pub(super) session: ComparisonSession,
    /// Findings in addition to the session's.
    pub(super) notes: Vec<String>,
    elapsed: Duration,
}

impl DriftRun {
    /// Nothing compared yet.
    pub(super) fn new(clocks: ComparedClocks, references: Vec<ComparisonReference>) -> Self {
        Self {
            session: ComparisonSession::new(clocks, references),
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Compares until `duration` is over, a signal comes, or every reference
    /// has stopped.
    ///
    /// # Errors
    /// It cannot wait.
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
            if let Some(why) = round.failed_at_first {
                live.note(&format!("the first comparison with {} failed: {why}", round.reference));
            }
            live.show(self.session.pairs(), begun.elapsed());
        }
        Ok(())
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
            "{running}use another reference (`--ntp`, `--phc`, `--vmclock`, `--chrony`) or \
             another --clock"
        ),
    }
}

#[cfg(test)]
mod tests;
