//! The measurement itself: compare, keep, wait.

use std::time::{Duration, Instant};

use instruments::drift::budget::Budget;
use instruments::drift::{Reading, Series};

use super::clocks::{ClockName, Clocks};
use super::live::Live;
use super::records::{Joined, Record, Recorder};
use super::references::Reference;
use super::report::{DriftReport, NotMeasured, PairReport};
use super::stopwatch;
use crate::commands::watch::waiting::{Waiting, Woken};
use crate::error::CliError;

/// One clock against one reference.
pub(super) struct Pair {
    pub(super) clock: ClockName,
    pub(super) reference: String,
    pub(super) series: Series,
    /// Readings that bounded nothing, and what was wrong with the last.
    refused: (u64, String),
}

impl Pair {
    /// A pair and what was read of it.
    pub(super) fn of(clock: ClockName, reference: &str, series: Series) -> Self {
        Self { clock, reference: reference.to_owned(), series, refused: (0, String::new()) }
    }
}

/// A measurement under way.
pub(super) struct Session {
    clocks: Clocks,
    references: Vec<Reference>,
    pub(super) pairs: Vec<Pair>,
    recorder: Option<Recorder>,
    notes: Vec<String>,
    elapsed: Duration,
}

impl Session {
    /// Nothing compared yet, but for what earlier runs left.
    pub(super) fn new(
        clocks: Clocks,
        references: Vec<Reference>,
        recorder: Option<Recorder>,
    ) -> Self {
        let (notes, elapsed) = (Vec::new(), Duration::ZERO);
        Self { clocks, references, pairs: Vec::new(), recorder, notes, elapsed }
    }

    /// Takes in what an earlier run recorded.
    pub(super) fn join(&mut self, joined: Joined, boot: &str) {
        let mut last_boot = None;
        for record in &joined.records {
            if last_boot.replace(&record.boot).is_some_and(|last| *last != record.boot) {
                self.interrupt();
            }
            self.take(record.clock, &record.reference, record.reading());
        }
        if last_boot.is_some_and(|last| last != boot) {
            self.interrupt();
        }
        self.notes.extend(joined.note);
    }

    fn interrupt(&mut self) {
        self.pairs.iter_mut().for_each(|pair| pair.series.interrupted());
    }

    /// Compares until `duration` is over, a signal comes, or no reference may
    /// be asked any more.
    pub(super) fn run(
        &mut self,
        duration: Duration,
        boot: &str,
        live: &mut Live,
    ) -> Result<(), CliError> {
        let waiting = Waiting::new().map_err(cannot_wait)?;
        let begun = Instant::now();
        let end = begun + duration;
        loop {
            let due = self.references.iter().enumerate().filter(|(_, one)| !one.is_stopped());
            let Some((next, at)) =
                due.map(|(index, one)| (index, one.due)).min_by_key(|(_, at)| *at)
            else {
                break;
            };
            let deadline = at.min(end);
            match waiting.until(deadline, None).map_err(|error| cannot_wait(error.into()))? {
                Woken::Time if at <= end => {}
                _ => break,
            }
            self.compare(next, boot)?;
            self.elapsed = begun.elapsed();
            live.show(&self.pairs, self.elapsed);
            if Instant::now() >= end {
                break;
            }
        }
        self.elapsed = begun.elapsed();
        self.pairs.iter_mut().for_each(|pair| pair.series.finish());
        Ok(())
    }

    /// Has a person say when, and for how long.
    pub(super) fn by_stopwatch(&mut self) -> Result<(), CliError> {
        let names = self.clocks.names();
        let (compared, elapsed) = stopwatch::measure(&self.clocks)?;
        self.elapsed = elapsed;
        for one in compared {
            if let Some(clock) = names.get(one.clock) {
                self.take(*clock, stopwatch::NAME, one.reading);
            }
        }
        self.notes.push("Either end by hand: within 0.2 s, it is assumed.".into());
        Ok(())
    }

    fn compare(&mut self, index: usize, boot: &str) -> Result<(), CliError> {
        let names = self.clocks.names();
        let Some(reference) = self.references.get_mut(index) else { return Ok(()) };
        let compared = reference.compare(&self.clocks);
        let name = reference.name().to_owned();
        if let Some(recorder) = &mut self.recorder {
            let records = compared.iter().filter_map(|one| {
                Some(Record::new(boot, &name, *names.get(one.clock)?, one.reading))
            });
            recorder.write(&records.collect::<Vec<_>>())?;
        }
        for one in compared {
            if let Some(clock) = names.get(one.clock) {
                self.take(*clock, &name, one.reading);
            }
        }
        Ok(())
    }

    fn take(&mut self, clock: ClockName, reference: &str, reading: Reading) {
        let known =
            self.pairs.iter().position(|pair| pair.clock == clock && pair.reference == reference);
        let index = known.unwrap_or_else(|| {
            self.pairs.push(Pair::of(clock, reference, Series::new()));
            self.pairs.len() - 1
        });
        if let Some(pair) = self.pairs.get_mut(index)
            && let Err(why) = pair.series.push(reading)
        {
            pair.refused = (pair.refused.0 + 1, why.to_string());
        }
    }

    /// The result.
    ///
    /// # Errors
    /// Not one comparison was made.
    pub(super) fn report(&self, budget: Budget) -> Result<DriftReport, CliError> {
        let mut pairs: Vec<PairReport> =
            self.pairs.iter().filter_map(|pair| judged(pair, budget)).collect();
        if pairs.is_empty() {
            return Err(self.nothing());
        }
        let mut references: Vec<_> = self.references.iter().map(Reference::report).collect();
        let mut notes = self.notes.clone();
        notes.extend(super::notes::judge_references(&mut references, &mut pairs));
        for pair in self.pairs.iter().filter(|pair| pair.refused.0 > 0) {
            let (count, why) = &pair.refused;
            let (clock, reference) = (pair.clock.name(), &pair.reference);
            notes.push(format!("{clock} against {reference}: {count} readings left out: {why}"));
        }
        notes.extend(super::notes::of(&pairs));
        Ok(DriftReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration_s: self.elapsed.as_secs_f64(),
            references,
            pairs,
            not_measured: self
                .clocks
                .missing
                .iter()
                .map(|(name, why)| NotMeasured { what: name.name(), why: why.clone() })
                .collect(),
            budget,
            notes,
        })
    }

    fn nothing(&self) -> CliError {
        let complaints: Vec<String> =
            self.references.iter().filter_map(Reference::complaint).collect();
        let clocks: Vec<String> = self
            .clocks
            .missing
            .iter()
            .map(|(name, why)| format!("{}: {why}", name.name()))
            .collect();
        let causes = if complaints.is_empty() { clocks } else { complaints };
        CliError::Failed {
            cause: format!("nothing was measured: {}", causes.join("; ")),
            remedy: "another reference (`--ntp`, `--phc`, `--chrony`, `--stopwatch`) or clock"
                .into(),
        }
    }
}

pub(super) fn judged(pair: &Pair, budget: Budget) -> Option<PairReport> {
    let drift = pair.series.drift()?;
    // chronyd's time and NTP's count from 1970; a PHC may count TAI.
    let offset_is_error = pair.clock.counts_from_1970()
        && (pair.reference.starts_with("ntp ") || pair.reference.starts_with("chrony"));
    Some(PairReport {
        clock: pair.clock.name(),
        reference: pair.reference.clone(),
        offset_is_error,
        frequency_verdict: budget.frequency(&drift),
        offset_verdict: budget.offset(&drift).filter(|_| offset_is_error),
        drift,
    })
}

fn cannot_wait(error: std::io::Error) -> CliError {
    CliError::Failed {
        cause: format!("cannot wait for signals and time: {error}"),
        remedy: "a higher limit of open files (`ulimit -n`)".into(),
    }
}
