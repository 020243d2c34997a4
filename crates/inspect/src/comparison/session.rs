//! The comparisons of a run, as they are made, and what they come to.

use std::io;
use std::time::Instant;

use instruments::drift::{Budget, BudgetVerdict};
use instruments::drift::{Drift, DriftReading, Refused, Series};
use linux::wait::{WaitUntil, Wake};
use schemars::JsonSchema;
use serde::Serialize;
use sources::phc::kernels_tai_s;

use super::clocks::{ClockComparison, ClockName, ComparedClocks, NotCompared, TscFrequency};
use super::notes::{Note, StoodStill, disturbances, judge_references, scale_notes, too_short};
use super::reference::{ComparisonReference, ReferenceReport, gives_utc};

/// Clocks that are compared with references.
pub struct ComparisonSession {
    clocks: ComparedClocks,
    references: Vec<ComparisonReference>,
    pairs: Vec<ClockPairSeries>,
    /// Something was compared in this run.
    has_compared: bool,
}

/// The comparisons of one reply; none where it failed.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonRound {
    /// The reference's name.
    pub reference: String,
    /// Each clock that could be compared.
    pub compared: Vec<ClockComparison>,
    /// Why it failed, where it was this reference's first.
    pub failed_at_first: Option<String>,
}

/// There is no comparison to compute from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("nothing was measured: {}", causes.join("; "))]
pub struct NothingMeasured {
    /// Why: of the references, or else of the clocks.
    pub causes: Vec<String>,
    /// Whether chronyd was one of the references.
    pub has_chronyd: bool,
}

impl ComparisonSession {
    /// Nothing compared yet.
    pub fn new(clocks: ComparedClocks, references: Vec<ComparisonReference>) -> Self {
        Self { clocks, references, pairs: Vec::new(), has_compared: false }
    }

    /// The clocks that are compared.
    pub fn clocks(&self) -> &ComparedClocks {
        &self.clocks
    }

    /// What they are compared with.
    pub fn references(&self) -> &[ComparisonReference] {
        &self.references
    }

    /// What was compared so far, in the order in which it first was.
    pub fn pairs(&self) -> &[ClockPairSeries] {
        &self.pairs
    }

    /// Whether an offset means something, or will: then a limit can be checked.
    pub fn has_offsets(&self) -> bool {
        let mut clocks = self.clocks.names().into_iter();
        let may_come = self.references.iter().any(|one| one.gives_utc)
            && clocks.any(ClockName::counts_from_1970);
        may_come || self.pairs.iter().any(ClockPairSeries::offset_is_error)
    }

    /// Waits for the next reference that is due, and compares with it; none when
    /// the time is over, a signal came, or every reference has stopped.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn next(&mut self, wait: &WaitUntil, end: Instant) -> io::Result<Option<ComparisonRound>> {
        let due = self.references.iter().enumerate().filter(|(_, one)| !one.is_stopped());
        let next = due.map(|(index, one)| (index, one.due)).min_by_key(|(_, at)| *at);
        let Some((index, at)) = next.filter(|_| Instant::now() < end) else { return Ok(None) };
        if let Some(rtc) = self.clocks.rtc.clone()
            && let Some(edge_at) = rtc.due().filter(|edge_at| *edge_at < at.min(end))
        {
            match wait.until(edge_at)? {
                Wake::Deadline => rtc.catch(),
                _ => return Ok(None),
            }
        }
        match wait.until(at.min(end))? {
            Wake::Deadline if at <= end => Ok(self.compare(index)),
            _ => Ok(None),
        }
    }

    /// Compares with the reference of that index now.
    pub fn compare(&mut self, index: usize) -> Option<ComparisonRound> {
        let others_wait = self.references.len() > 1;
        let reference = self.references.get_mut(index)?;
        if let Some(rtc) = &self.clocks.rtc {
            reference.rtc_seen = rtc.show(reference.rtc_seen);
        }
        let compared = reference.compare(&self.clocks, others_wait);
        let failed_at_first = reference.failed_at_first();
        let reference = reference.name().to_owned();
        self.add(&reference, &compared);
        Some(ComparisonRound { reference, compared, failed_at_first })
    }

    /// Adds comparisons of this run.
    pub fn add(&mut self, reference: &str, compared: &[ClockComparison]) {
        self.has_compared |= !compared.is_empty();
        for one in compared {
            self.add_one(one.clock, reference, one.reading);
        }
    }

    fn add_one(&mut self, clock: ClockName, reference: &str, reading: DriftReading) {
        let known =
            self.pairs.iter().position(|pair| pair.clock == clock && pair.reference == reference);
        let index = known.unwrap_or_else(|| {
            let mut pair = ClockPairSeries::new(clock, reference, Series::new());
            // A host's clock gives UTC by its driver's name.
            pair.gives_utc |=
                self.references.iter().any(|one| one.name() == reference && one.gives_utc);
            self.pairs.push(pair);
            self.pairs.len() - 1
        });
        if let Some(pair) = self.pairs.get_mut(index)
            && let Err(why) = pair.series.push(reading)
        {
            pair.refused = (pair.refused.0 + 1, Some(why));
        }
    }

    /// The last comparison was made.
    pub fn finish(&mut self) {
        self.pairs.iter_mut().for_each(|pair| pair.series.finish());
    }

    /// What it came to.
    ///
    /// # Errors
    /// There is no comparison with a reference that advances.
    pub fn outcome(&self, budget: Budget) -> Result<ComparisonOutcome, NothingMeasured> {
        let stood_still = self.stood_still();
        let advances = |pair: &&ClockPairSeries| pair.series.reference_stood_still_ns().is_none();
        let mut pairs: Vec<PairReport> =
            self.pairs.iter().filter(advances).filter_map(|pair| pair.judged(budget)).collect();
        if pairs.is_empty() {
            return Err(self.nothing(&stood_still));
        }
        let mut references: Vec<_> =
            self.references.iter().map(ComparisonReference::report).collect();
        let mut notes = Vec::from_iter(judge_references(&mut references, &mut pairs));
        notes.extend(scale_notes(&pairs, &kernels_tai_s()));
        notes.extend(too_short(&pairs));
        let mut disturbances = disturbances(&references, &pairs);
        disturbances.extend(stood_still.into_iter().map(Note::StoodStill));
        for pair in &self.pairs {
            let (readings, Some(why)) = pair.refused else { continue };
            let (clock, reference) = (pair.clock, pair.reference.clone());
            let of_kind = match why {
                Refused::BeforeStart { .. } => &mut disturbances,
                Refused::WentBack { .. } => &mut notes,
            };
            of_kind.push(Note::LeftOut { clock, reference, readings, why });
        }
        Ok(ComparisonOutcome {
            references,
            tsc_frequency: self.clocks.tsc.filter(|_| self.has_compared),
            not_measured: self.clocks.missing.iter().cloned().chain(self.still_rtc()).collect(),
            unchecked: Unchecked::from_pairs(&pairs, budget),
            pairs,
            notes,
            disturbances,
        })
    }

    /// The RTC, where its seconds did not change.
    fn still_rtc(&self) -> Option<NotCompared> {
        let is_still = self.clocks.rtc.as_ref().is_some_and(|rtc| rtc.is_given_up());
        let why = "its seconds do not change, or it cannot be read".to_owned();
        is_still.then_some(NotCompared { what: ClockName::Rtc, why })
    }

    /// References that showed the same time throughout, each once.
    fn stood_still(&self) -> Vec<StoodStill> {
        let mut stopped: Vec<StoodStill> = Vec::new();
        for pair in &self.pairs {
            if let Some(advanced_ns) = pair.series.reference_stood_still_ns()
                && !stopped.iter().any(|one| one.reference == pair.reference)
            {
                let (reference, clock) = (pair.reference.clone(), pair.clock);
                stopped.push(StoodStill { reference, clock, advanced_ns });
            }
        }
        stopped
    }

    fn nothing(&self, stood_still: &[StoodStill]) -> NothingMeasured {
        let failures = self.references.iter().filter_map(ComparisonReference::last_failure);
        let mut causes: Vec<String> =
            stood_still.iter().map(ToString::to_string).chain(failures).collect();
        if causes.is_empty() {
            let missing = self.clocks.missing.iter();
            causes.extend(missing.map(|NotCompared { what, why }| format!("{what}: {why}")));
        }
        if causes.is_empty() {
            causes.push("these clocks cannot be compared".into());
        }
        let has_chronyd = self.references.iter().any(|one| one.name().starts_with("chrony"));
        NothingMeasured { causes, has_chronyd }
    }
}

/// One clock against one reference.
#[derive(Debug)]
pub struct ClockPairSeries {
    /// The clock.
    pub clock: ClockName,
    /// The reference's name.
    pub reference: String,
    /// The comparisons.
    pub series: Series,
    /// Whether the reference gives UTC.
    pub gives_utc: bool,
    /// Readings that bounded nothing, and what was wrong with the last.
    pub refused: (u64, Option<Refused>),
}

impl ClockPairSeries {
    /// A pair with its comparisons.
    pub fn new(clock: ClockName, reference: &str, series: Series) -> Self {
        let gives_utc = gives_utc(reference);
        Self { clock, reference: reference.to_owned(), series, gives_utc, refused: (0, None) }
    }

    /// Whether both show the time of day.
    pub fn offset_is_error(&self) -> bool {
        self.clock.counts_from_1970() && self.gives_utc
    }

    /// Its figures, and whether they keep to the budget; none without a
    /// comparison.
    pub fn judged(&self, budget: Budget) -> Option<PairReport> {
        let drift = self.series.drift()?;
        let offset_is_error = self.offset_is_error();
        Some(PairReport {
            clock: self.clock,
            reference: self.reference.clone(),
            offset_is_error,
            frequency_verdict: budget.frequency(&drift),
            offset_verdict: budget.offset(&drift).filter(|_| offset_is_error),
            drift,
        })
    }
}

/// The figures of one clock against one reference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PairReport {
    /// The clock.
    pub clock: ClockName,
    /// The reference's name.
    pub reference: String,
    /// The figures.
    pub drift: Drift,
    /// Whether both count from 1970, so that the offset is an error.
    pub offset_is_error: bool,
    /// The frequency against the budget.
    pub frequency_verdict: Option<BudgetVerdict>,
    /// The offset against the budget.
    pub offset_verdict: Option<BudgetVerdict>,
}

/// The figures, and what they show together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ComparisonOutcome {
    /// What the clocks were compared with.
    pub references: Vec<ReferenceReport>,
    /// Each clock against each reference.
    pub pairs: Vec<PairReport>,
    /// The frequency by which tsc's counts were converted; none where it was not
    /// measured in this run.
    pub tsc_frequency: Option<TscFrequency>,
    /// Clocks that could not be measured.
    pub not_measured: Vec<NotCompared>,
    /// Limits that nothing was compared with.
    pub unchecked: Vec<Unchecked>,
    /// Findings in addition to the figures.
    pub notes: Vec<Note>,
    /// What the measurement cannot be relied on for: a reference stepped, a
    /// clock was set back. The figures are of the rest.
    pub disturbances: Vec<Note>,
}

/// A limit that was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unchecked {
    /// Of the offset: no clock that counts from 1970 was compared with a
    /// reference that gives UTC.
    Offset,
    /// Of the frequency: too few comparisons of these clocks.
    Frequency(Vec<ClockName>),
}

impl Unchecked {
    /// The limits of a budget that these pairs leave unchecked.
    pub fn from_pairs(pairs: &[PairReport], budget: Budget) -> Vec<Self> {
        let is_unmeasured =
            |pair: &PairReport| pair.frequency_verdict == Some(BudgetVerdict::NotMeasured);
        // Measured against one reference, a clock has its frequency.
        let mut unmeasured: Vec<ClockName> = Vec::new();
        for pair in pairs.iter().filter(|pair| is_unmeasured(pair)) {
            let mut others = pairs.iter().filter(|other| other.clock == pair.clock);
            let is_measured =
                others.any(|other| other.frequency_verdict.is_some() && !is_unmeasured(other));
            if !is_measured && !unmeasured.contains(&pair.clock) {
                unmeasured.push(pair.clock);
            }
        }
        let frequency = (!unmeasured.is_empty()).then_some(Self::Frequency(unmeasured));
        let is_offset_unchecked = budget.max_offset_ns.is_some()
            && pairs.iter().all(|pair| pair.offset_verdict.is_none());
        frequency.into_iter().chain(is_offset_unchecked.then_some(Self::Offset)).collect()
    }
}

#[cfg(test)]
mod tests;
