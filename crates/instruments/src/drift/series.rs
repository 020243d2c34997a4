//! Readings of one clock against one reference, as they come.

use std::collections::VecDeque;

use super::allan;
use super::filter::{self, Bounded};
use super::result::{Drift, Frequency, Offset, RateChange, Step, late_ns};
use super::theil_sen::{self, Point};
use super::{Nesting, Reading};
use crate::steps::{LearntRate, Moved};

/// Readings after a change of frequency that are enough to go by them alone.
const ENOUGH: usize = 16;

/// Readings that decide whether the next is wide.
const WIDTHS: usize = 32;

/// Wide readings in a row that are left out of the search for steps.
const WIDE_IN_A_ROW: usize = 3;

/// Rounds in which the slope and what it was taken out of improve each other.
const ROUNDS: usize = 3;

/// Why a reading was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A clock went back while it was read; how far its bounds are crossed, ns.
    WentBack {
        /// Lower bound minus upper bound, ns.
        by_ns: i128,
    },
    /// The reference shows an earlier time than at the start.
    BeforeStart {
        /// How much earlier, ns.
        by_ns: u64,
    },
}

/// Where the differences count from: f64 has no room for ns since 1970.
#[derive(Debug, Clone, Copy)]
struct Origin {
    reference_ns: u64,
    offset_ns: i128,
}

/// One clock against one reference.
#[derive(Debug, Clone, Default)]
pub struct Series {
    origin: Option<Origin>,
    readings: Vec<Bounded>,
    /// Where stretches begin that no step divides; the first at 0.
    cuts: Vec<usize>,
    steps: Vec<Step>,
    rate_changes: Vec<RateChange>,
    /// First reading of the newest frequency.
    since: usize,
    learnt: Option<(LearntRate, Nesting)>,
    /// The newest widths of bounds, ns, and how many in a row were wide.
    widths: VecDeque<f64>,
    wide_in_a_row: usize,
}

impl Series {
    /// No reading yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one reading in.
    ///
    /// # Errors
    /// It bounds nothing.
    pub fn push(&mut self, reading: Reading) -> Result<(), Refused> {
        let (low, high) = reading.bounds();
        if low > high {
            return Err(Refused::WentBack { by_ns: low - high });
        }
        let at_ns = reading.at_ns();
        let origin = *self.origin.get_or_insert(Origin { reference_ns: at_ns, offset_ns: low });
        let Some(elapsed_ns) = at_ns.checked_sub(origin.reference_ns) else {
            return Err(Refused::BeforeStart { by_ns: origin.reference_ns - at_ns });
        };
        self.readings.push(Bounded {
            at_s: elapsed_ns as f64 / 1e9,
            low_ns: (low - origin.offset_ns) as f64,
            high_ns: (high - origin.offset_ns) as f64,
        });
        let index = self.readings.len() - 1;
        if self.hides_a_step((high - low) as f64) {
            return Ok(());
        }
        let (learnt, _) = self
            .learnt
            .get_or_insert_with(|| (LearntRate::new(reading.inner_step_ns()), reading.nesting));
        for moved in learnt.observe(reading.bracket(), index as u64) {
            self.note(moved);
        }
        Ok(())
    }

    /// Whether a reading is so much wider than those before it that a step
    /// would fit in: one that stood in a queue, or that the step happened in
    /// the middle of. Then the next one decides; unless all are as wide now.
    fn hides_a_step(&mut self, width_ns: f64) -> bool {
        let mut sorted: Vec<f64> = self.widths.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.widths.push_back(width_ns);
        if self.widths.len() > WIDTHS {
            self.widths.pop_front();
        }
        let (Some(least), Some(median)) = (sorted.first(), theil_sen::median(&sorted)) else {
            return false;
        };
        let is_wide =
            sorted.len() >= WIDTHS / 2 && width_ns > late_ns(*least, median).max(2.0 * median);
        self.wide_in_a_row = if is_wide { self.wide_in_a_row + 1 } else { 0 };
        is_wide && self.wide_in_a_row <= WIDE_IN_A_ROW
    }

    /// What comes next has another offset, for a known reason: the machine was
    /// started again between two runs.
    pub fn interrupted(&mut self) {
        self.finish();
        if !self.readings.is_empty() {
            self.cut(self.readings.len());
        }
        self.learnt = None;
    }

    /// No reading follows: reports undecided steps as they are.
    pub fn finish(&mut self) {
        let moved = self.learnt.as_mut().map(|(learnt, _)| learnt.finish()).unwrap_or_default();
        for moved in moved {
            self.note(moved);
        }
    }

    /// Bounds on clock − reference, from the first reading's lower bound on.
    pub fn readings(&self) -> &[Bounded] {
        &self.readings
    }

    /// How far the clock went on, ns, while the reference showed one and the
    /// same time: by a second and more it is no reference. Emulated hardware
    /// clocks do that (QEMU 7.2's e1000e).
    pub fn reference_stood_still_ns(&self) -> Option<f64> {
        let (first, last) = (self.readings.first()?, self.readings.last()?);
        let went_on_ns = last.low_ns - first.low_ns;
        let is_one_time = self.readings.iter().all(|reading| reading.at_s == 0.0);
        (is_one_time && went_on_ns >= 1e9).then_some(went_on_ns)
    }

    /// Where steps cut the readings: the first reading after each.
    pub fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    fn note(&mut self, moved: Moved) {
        let outside = self.learnt.as_ref().is_some_and(|(_, at)| *at == Nesting::ClockOutside);
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match moved {
            Moved::Step { at_ns: at, step } => {
                let at = place(at);
                let Some(reading) = self.readings.get(at) else { return };
                // Steps are of the inner clock: here that is the reference.
                let ns = if outside { -step.middle() } else { step.middle() };
                self.steps.push(Step { at_s: reading.at_s, ns, bound_ns: step.bound() });
                self.cut(at);
            }
            Moved::Rate { at_ns: at, before, after } => {
                let at = place(at);
                let Some(reading) = self.readings.get(at) else { return };
                let ppm = |rate: f64| (if outside { 1.0 / rate } else { rate } - 1.0) * 1e6;
                self.rate_changes.push(RateChange {
                    at_s: reading.at_s,
                    before_ppm: ppm(before),
                    after_ppm: ppm(after),
                });
                self.since = at;
            }
        }
    }

    fn cut(&mut self, at: usize) {
        if self.cuts.last() != Some(&at) {
            self.cuts.push(at);
        }
    }

    /// The stretches between steps, from reading `from` on.
    fn stretches(&self, from: usize) -> Vec<&[Bounded]> {
        let mut ends: Vec<usize> = self.cuts.iter().copied().filter(|cut| *cut > from).collect();
        ends.push(self.readings.len());
        let mut begin = from;
        let mut stretches = Vec::new();
        for end in ends {
            stretches.extend(self.readings.get(begin..end).filter(|part| !part.is_empty()));
            begin = end;
        }
        stretches
    }

    /// What all readings so far come to; none without any.
    pub fn drift(&self) -> Option<Drift> {
        let origin = self.origin?;
        let (first, last) = (self.readings.first()?, self.readings.last()?);
        let from = if self.readings.len() - self.since >= ENOUGH { self.since } else { 0 };
        let stretches = self.stretches(from);
        let (frequency, blocks) = fit(&stretches);
        let mut delays: Vec<f64> = self.readings.iter().map(Bounded::width_ns).collect();
        delays.sort_by(f64::total_cmp);
        let carried = |block: &filter::Block, at_s| carry(block.best, at_s, frequency);
        let end = blocks.last().map_or(*last, |block| carried(block, last.at_s));
        // The blocks begin at the start, unless the frequency changed since.
        let start = blocks.first().filter(|_| from == 0);
        let start = start.map_or(*first, |block| carried(block, first.at_s));
        let (_, ns) = end.middle();
        let longest = stretches.iter().max_by_key(|stretch| stretch.len())?;
        let (least_delay_ns, median_delay_ns) = (*delays.first()?, theil_sen::median(&delays)?);
        let late_ns = late_ns(least_delay_ns, median_delay_ns);
        let prompt = longest.iter().filter(|reading| reading.width_ns() <= late_ns);
        let phase: Vec<Point> =
            prompt.map(Bounded::middle).map(|(at_s, ns)| (at_s, ns / 1e9)).collect();
        Some(Drift {
            readings: self.readings.len(),
            kept: blocks.iter().map(|block| block.kept).sum(),
            span_s: last.at_s - first.at_s,
            least_delay_ns,
            median_delay_ns,
            frequency,
            offset: Offset {
                ns: origin.offset_ns as f64 + ns,
                bound_ns: (end.width_ns() / 2.0).max(0.0),
                moved_ns: ns - start.middle().1,
            },
            steps: self.steps.clone(),
            rate_changes: self.rate_changes.clone(),
            allan: allan::over_octaves(&phase),
        })
    }
}

/// A block's bounds, carried to another time by the frequency found.
fn carry(best: Bounded, at_s: f64, frequency: Option<Frequency>) -> Bounded {
    let by = frequency.map_or(0.0, |frequency| frequency.ppm * 1e3 * (at_s - best.at_s));
    Bounded { at_s, low_ns: best.low_ns + by, high_ns: best.high_ns + by }
}

/// The frequency, and the blocks it was fitted to: a first slope through the
/// tightest readings, then better ones through blocks that the last one's
/// drift was taken out of.
fn fit(stretches: &[&[Bounded]]) -> (Option<Frequency>, Vec<filter::Block>) {
    let all = stretches.iter().map(|stretch| stretch.len()).sum();
    let tightest: Vec<Vec<Point>> =
        stretches.iter().map(|stretch| filter::tightest(stretch, all)).collect();
    let mut slope = theil_sen::slope(&tightest);
    let mut blocks = Vec::new();
    for _ in 0..ROUNDS {
        let about = slope.map_or(0.0, |slope| slope.estimate);
        let parts: Vec<Vec<filter::Block>> =
            stretches.iter().map(|stretch| filter::blocks(stretch, all, about)).collect();
        let points: Vec<Vec<Point>> = parts
            .iter()
            .map(|part| part.iter().map(|block| block.best.middle()).collect())
            .collect();
        slope = theil_sen::slope(&points).or(slope);
        let longest = parts.iter().max_by_key(|part| part.len());
        if let (Some(slope), Some(part)) = (&mut slope, longest) {
            slope.interval = slope.interval.or_else(|| slope_bounds(part));
        }
        blocks = parts.concat();
    }
    (slope.map(Frequency::of_slope), blocks)
}

/// Between which slopes anything through the bounds of the first and the last
/// block runs: what is known where too few blocks leave Sen's interval open.
fn slope_bounds(blocks: &[filter::Block]) -> Option<(f64, f64)> {
    let (first, last) = (blocks.first()?.best, blocks.last()?.best);
    let length_s = Some(last.at_s - first.at_s).filter(|length| *length > 0.0)?;
    let low = (last.low_ns - first.high_ns) / length_s;
    let high = (last.high_ns - first.low_ns) / length_s;
    Some((low.min(high), low.max(high)))
}

#[cfg(test)]
mod tests;
