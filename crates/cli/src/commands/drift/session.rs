//! The measurement itself: compare, record, wait.

mod resumed;

use std::path::Path;
use std::time::{Duration, Instant};

use ::records::{Record, Recorder};
use instruments::drift::budget::Budget;
use instruments::drift::{Reading, Refused, Series};
use sources::phc::kernels_tai_s;

use super::clocks::{ClockName, Clocks, Compared};
use super::live::Live;
use super::pair::{Pair, judged};
use super::records;
use super::references::Reference;
use super::report::{DriftReport, NotHeld, NotMeasured, PairReport};
use super::stopwatch::{self, Person};
use super::verdicts;
use crate::error::CliError;
use crate::error::cannot_wait;
use instruments::figures::time;
use linux::wait::{Signals, Wait, Wake};
pub(super) use resumed::Resuming;

/// A measurement that is running.
pub(super) struct Session {
    clocks: Clocks,
    references: Vec<Reference>,
    /// The kernel's name of this boot.
    boot: String,
    pub(super) pairs: Vec<Pair>,
    recorder: Option<Recorder>,
    /// Findings in addition to the figures.
    pub(super) notes: Vec<String>,
    elapsed: Duration,
    /// Something was compared in this run.
    has_compared: bool,
}

impl Session {
    /// Nothing compared yet, nothing recorded.
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

    /// Records each comparison in a new file.
    pub(super) fn record(&mut self, path: &Path) -> Result<(), CliError> {
        self.recorder = Some(records::create(path)?);
        Ok(())
    }

    /// Whether a run can be held to the budget.
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
        self.recorder.take().map_or(Ok(()), |recorder| recorder.finish().map_err(records::failed))
    }

    fn interrupt(&mut self) {
        self.pairs.iter_mut().for_each(|pair| pair.series.interrupted());
    }

    /// Compares until `duration` is over, a signal comes, or every reference
    /// has stopped.
    ///
    /// # Errors
    /// A comparison cannot be recorded; the measurement ends there, with all
    /// that it has.
    pub(super) fn run(&mut self, duration: Duration, live: &mut Live) -> Result<(), CliError> {
        let begun = Instant::now();
        let measured = self.measure(begun, begun + duration, live);
        self.elapsed = begun.elapsed();
        self.pairs.iter_mut().for_each(|pair| pair.series.finish());
        measured
    }

    fn measure(&mut self, begun: Instant, end: Instant, live: &mut Live) -> Result<(), CliError> {
        let wait = Wait::new(Signals::ending().map_err(cannot_wait)?).for_reader();
        while Instant::now() < end {
            let due = self.references.iter().enumerate().filter(|(_, one)| !one.is_stopped());
            let Some((next, at)) =
                due.map(|(index, one)| (index, one.due)).min_by_key(|(_, at)| *at)
            else {
                break;
            };
            let deadline = at.min(end);
            match wait.until(deadline).map_err(cannot_wait)? {
                Wake::Deadline if at <= end => {}
                _ => break,
            }
            self.compare(next)?;
            let failed = self.references.get(next).and_then(Reference::failed_at_first);
            failed.into_iter().for_each(|note| live.note(&note));
            self.elapsed = begun.elapsed();
            live.show(&self.pairs, self.elapsed);
        }
        Ok(())
    }

    /// Prompts a person for the stopwatch's start and its reading; where an
    /// earlier run has the start, for the reading only.
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
        self.notes.push("Start and end by hand: ± 0.2 s each is assumed.".into());
        Ok(())
    }

    fn compare(&mut self, index: usize) -> Result<(), CliError> {
        let others_wait = self.references.len() > 1;
        let Some(reference) = self.references.get_mut(index) else { return Ok(()) };
        let compared = reference.compare(&self.clocks, others_wait);
        let name = reference.name().to_owned();
        self.keep(&name, compared)
    }

    /// Takes comparisons in, and records them.
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
            Some(recorder) => recorder.write(&lines).map_err(records::failed),
            None => Ok(()),
        }
    }

    fn take(&mut self, clock: ClockName, reference: &str, reading: Reading) {
        let known =
            self.pairs.iter().position(|pair| pair.clock == clock && pair.reference == reference);
        let index = known.unwrap_or_else(|| {
            let mut pair = Pair::of(clock, reference, Series::new());
            // A host's clock gives UTC by its driver's name, which no record has.
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
        disturbed.extend(stood_still.iter().map(|what| format!("{what}.")));
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

    /// References that showed the same time throughout, each once.
    fn stood_still(&self) -> Vec<String> {
        let mut stopped: Vec<(&str, String)> = Vec::new();
        for pair in &self.pairs {
            if let Some(ns) = pair.series.reference_stood_still_ns()
                && !stopped.iter().any(|(name, _)| *name == pair.reference)
            {
                let (name, clock) = (pair.reference.as_str(), pair.clock.name());
                stopped.push((
                    name,
                    format!("{name} stood still while {clock} advanced by {}", time(ns)),
                ));
            }
        }
        stopped.into_iter().map(|(_, what)| what).collect()
    }

    fn nothing(&self, stood_still: Vec<String>) -> CliError {
        let failures = self.references.iter().filter_map(Reference::last_failure);
        let failures: Vec<String> = stood_still.into_iter().chain(failures).collect();
        let clocks: Vec<String> = self
            .clocks
            .missing
            .iter()
            .map(|(name, why)| format!("{}: {why}", name.name()))
            .collect();
        let mut causes = if failures.is_empty() { clocks } else { failures };
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

#[cfg(test)]
mod tests;
