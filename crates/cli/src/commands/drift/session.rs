//! The measurement itself: compare, keep, wait.

mod resumed;

use std::path::Path;
use std::time::{Duration, Instant};

use ::records::{Record, Recorder};
use instruments::drift::budget::Budget;
use instruments::drift::{Reading, Refused, Series};
use sources::phc::kernels_tai_s;

use super::clocks::{ClockName, Clocks, Compared};
use super::live::Live;
use super::records;
use super::reference_names::gives_utc;
use super::references::Reference;
use super::report::{DriftReport, NotMeasured, PairReport};
use super::stopwatch::{self, Person};
use super::verdicts::{self, NotHeld};
use crate::error::CliError;
use crate::error::cannot_wait;
use instruments::figures::time;
use linux::wait::{Waiting, Woken};
pub(super) use resumed::Resuming;

/// One clock against one reference.
pub(super) struct Pair {
    pub(super) clock: ClockName,
    pub(super) reference: String,
    pub(super) series: Series,
    /// Whether the reference tells UTC.
    gives_utc: bool,
    /// Readings that bounded nothing, and what was wrong with the last.
    refused: (u64, Option<Refused>),
}

impl Pair {
    /// A pair and what was read of it.
    pub(super) fn of(clock: ClockName, reference: &str, series: Series) -> Self {
        let gives_utc = gives_utc(reference);
        Self { clock, reference: reference.to_owned(), series, gives_utc, refused: (0, None) }
    }

    /// Whether both tell the time of day.
    fn offset_is_error(&self) -> bool {
        self.clock.counts_from_1970() && self.gives_utc
    }
}

/// A measurement under way.
pub(super) struct Session {
    clocks: Clocks,
    references: Vec<Reference>,
    /// The kernel's name of this boot.
    boot: String,
    pub(super) pairs: Vec<Pair>,
    recorder: Option<Recorder>,
    /// What is told beside the figures.
    pub(super) notes: Vec<String>,
    elapsed: Duration,
    /// Something was compared in this run.
    has_compared: bool,
}

impl Session {
    /// Nothing compared yet, nothing written down.
    pub(super) fn new(clocks: Clocks, references: Vec<Reference>, boot: String) -> Self {
        Self {
            clocks,
            references,
            boot,
            pairs: Vec::new(),
            recorder: None,
            notes: Vec::new(),
            elapsed: Duration::ZERO,
            has_compared: false,
        }
    }

    /// Writes each comparison down in a new file.
    pub(super) fn record(&mut self, path: &Path) -> Result<(), CliError> {
        self.recorder = Some(records::create(path)?);
        Ok(())
    }

    /// Whether a run may have something to hold to the budget.
    ///
    /// # Errors
    /// No offset will mean anything.
    pub(super) fn may_hold(&self, budget: Budget) -> Result<(), CliError> {
        let mut clocks = self.clocks.names().into_iter();
        let may_come = self.references.iter().any(|one| one.gives_utc)
            && clocks.any(ClockName::counts_from_1970);
        let is_there = self.pairs.iter().any(Pair::offset_is_error);
        if budget.max_offset_ns.is_none() || may_come || is_there {
            return Ok(());
        }
        let NotHeld { why, remedy } = NotHeld::offset();
        Err(CliError::Failed { cause: why, remedy })
    }

    /// Ends the record.
    pub(super) fn finish_records(&mut self) -> Result<(), CliError> {
        self.recorder.take().map_or(Ok(()), |recorder| recorder.finish().map_err(records::told))
    }

    fn interrupt(&mut self) {
        self.pairs.iter_mut().for_each(|pair| pair.series.interrupted());
    }

    /// Compares until `duration` is over, a signal comes, or no reference may
    /// be asked any more.
    ///
    /// # Errors
    /// What was compared cannot be written down; the measurement ends there,
    /// with all that it has.
    pub(super) fn run(&mut self, duration: Duration, live: &mut Live) -> Result<(), CliError> {
        let begun = Instant::now();
        let measured = self.measure(begun, begun + duration, live);
        self.elapsed = begun.elapsed();
        self.pairs.iter_mut().for_each(|pair| pair.series.finish());
        measured
    }

    fn measure(&mut self, begun: Instant, end: Instant, live: &mut Live) -> Result<(), CliError> {
        let waiting = Waiting::new().map_err(cannot_wait)?;
        while Instant::now() < end {
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
            self.compare(next)?;
            let failed = self.references.get(next).and_then(Reference::failed_at_first);
            failed.into_iter().for_each(|said| live.note(&said));
            self.elapsed = begun.elapsed();
            live.show(&self.pairs, self.elapsed);
        }
        Ok(())
    }

    /// Has a person say when, and for how long; where an earlier run has the
    /// stopwatch's start, only what it shows now.
    pub(super) fn by_stopwatch(&mut self) -> Result<(), CliError> {
        let mut person = Person::at_terminal();
        let begun = Instant::now();
        if !self.pairs.iter().any(|pair| pair.reference == stopwatch::NAME) {
            let start = person.starts(&self.clocks)?;
            self.keep(stopwatch::NAME, start)?;
        }
        let (at, shown) = person.stops(&self.clocks)?;
        self.elapsed = at.saturating_duration_since(begun);
        self.keep(stopwatch::NAME, shown)?;
        self.pairs.iter_mut().for_each(|pair| pair.series.finish());
        self.notes.push("Either end by hand: within 0.2 s, it is assumed.".into());
        Ok(())
    }

    fn compare(&mut self, index: usize) -> Result<(), CliError> {
        let others_wait = self.references.len() > 1;
        let Some(reference) = self.references.get_mut(index) else { return Ok(()) };
        let compared = reference.compare(&self.clocks, others_wait);
        let name = reference.name().to_owned();
        self.keep(&name, compared)
    }

    /// Takes comparisons in, and writes them down.
    fn keep(&mut self, reference: &str, compared: Vec<Compared>) -> Result<(), CliError> {
        let names = self.clocks.names();
        let mut lines = Vec::new();
        self.has_compared |= !compared.is_empty();
        for one in compared {
            if let Some(clock) = names.get(one.clock) {
                lines.push(Record::new(&self.boot, reference, &clock.name(), one.reading));
                self.take(*clock, reference, one.reading);
            }
        }
        match &mut self.recorder {
            Some(recorder) => recorder.write(&lines).map_err(records::told),
            None => Ok(()),
        }
    }

    fn take(&mut self, clock: ClockName, reference: &str, reading: Reading) {
        let known =
            self.pairs.iter().position(|pair| pair.clock == clock && pair.reference == reference);
        let index = known.unwrap_or_else(|| {
            let mut pair = Pair::of(clock, reference, Series::new());
            // A host's clock tells by its driver's name, which no record has.
            pair.gives_utc |=
                (self.references.iter()).any(|one| one.name() == reference && one.gives_utc);
            self.pairs.push(pair);
            self.pairs.len() - 1
        });
        if let Some(pair) = self.pairs.get_mut(index)
            && let Err(why) = pair.series.push(reading)
        {
            pair.refused = (pair.refused.0 + 1, Some(why));
        }
    }

    /// The result.
    ///
    /// # Errors
    /// Not one comparison was made.
    pub(super) fn report(&self, budget: Budget) -> Result<DriftReport, CliError> {
        let stood_still = self.stood_still();
        let goes = |pair: &&Pair| pair.series.reference_stood_still_ns().is_none();
        let mut pairs: Vec<PairReport> =
            self.pairs.iter().filter(goes).filter_map(|pair| judged(pair, budget)).collect();
        if pairs.is_empty() {
            return Err(self.nothing(stood_still));
        }
        let mut references: Vec<_> = self.references.iter().map(Reference::report).collect();
        let mut notes = self.notes.clone();
        notes.extend(super::notes::judge_references(&mut references, &mut pairs));
        notes.extend(super::scale::notes(&pairs, &kernels_tai_s()));
        let mut disturbed = super::notes::disturbances(&references, &pairs);
        disturbed.extend(stood_still.iter().map(|said| format!("{said}.")));
        for pair in &self.pairs {
            let (count, Some(why)) = &pair.refused else { continue };
            let (clock, reference) = (pair.clock.name(), &pair.reference);
            let left_out = match count {
                1 => format!("{clock} against {reference}: 1 reading left out"),
                _ => format!("{clock} against {reference}: {count} readings left out"),
            };
            match why {
                Refused::BeforeStart { by_ns } => disturbed.push(format!(
                    "{left_out}: the reference went back, to {} before the start.",
                    time(*by_ns as f64)
                )),
                Refused::WentBack { by_ns } => notes.push(format!(
                    "{left_out}: a clock went back by {} while it was compared.",
                    time(*by_ns as f64)
                )),
            }
        }
        Ok(DriftReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration_s: self.elapsed.as_secs_f64(),
            references,
            tsc_frequency: self.clocks.tsc.filter(|_| self.has_compared),
            not_measured: self
                .clocks
                .missing
                .iter()
                .map(|(name, why)| NotMeasured { what: name.name(), why: why.clone() })
                .collect(),
            not_held: verdicts::not_held(&pairs, budget),
            pairs,
            budget,
            notes,
            disturbed,
        })
    }

    /// References that showed one and the same time, each once.
    fn stood_still(&self) -> Vec<String> {
        let mut told: Vec<(&str, String)> = Vec::new();
        for pair in &self.pairs {
            if let Some(ns) = pair.series.reference_stood_still_ns()
                && !told.iter().any(|(name, _)| *name == pair.reference)
            {
                let (name, clock) = (pair.reference.as_str(), pair.clock.name());
                told.push((
                    name,
                    format!("{name} stood still while {clock} went on by {}", time(ns)),
                ));
            }
        }
        told.into_iter().map(|(_, said)| said).collect()
    }

    fn nothing(&self, stood_still: Vec<String>) -> CliError {
        let complaints = self.references.iter().filter_map(Reference::complaint);
        let complaints: Vec<String> = stood_still.into_iter().chain(complaints).collect();
        let clocks: Vec<String> = self
            .clocks
            .missing
            .iter()
            .map(|(name, why)| format!("{}: {why}", name.name()))
            .collect();
        let mut causes = if complaints.is_empty() { clocks } else { complaints };
        if causes.is_empty() {
            causes.push("there is no comparison of these clocks".into());
        }
        let chrony = self.references.iter().any(|reference| reference.name().starts_with("chrony"));
        let running =
            if chrony { "is chronyd running (`systemctl start chrony`)? Or " } else { "" };
        CliError::Failed {
            cause: format!("nothing was measured: {}", causes.join("; ")),
            remedy: format!(
                "{running}another reference (`--ntp`, `--phc`, `--vmclock`, `--chrony`, \
                 `--stopwatch`) or clock"
            ),
        }
    }
}

pub(super) fn judged(pair: &Pair, budget: Budget) -> Option<PairReport> {
    let drift = pair.series.drift()?;
    let offset_is_error = pair.offset_is_error();
    Some(PairReport {
        clock: pair.clock.name(),
        reference: pair.reference.clone(),
        offset_is_error,
        frequency_verdict: budget.frequency(&drift),
        offset_verdict: budget.offset(&drift).filter(|_| offset_is_error),
        drift,
    })
}

#[cfg(test)]
mod tests;
