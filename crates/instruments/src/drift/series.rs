//! Readings of one clock against one reference, as they come.

use std::collections::VecDeque;

use super::DriftReading;
use super::allan;
use super::filter::{self, Bounded};
use super::lasting::{self, FoundStep, Lasting};
use super::result::{Drift, DriftOffset, DriftStep, Frequency, RateChange, late_ns};
use super::theil_sen::{self, Point};

/// Readings after a change of frequency that are enough to go by them alone.
const ENOUGH: usize = 16;

/// Readings that decide whether the next is wide.
const WIDTHS: usize = 32;

/// Wide readings in a row that are left out of the search for steps.
const WIDE_IN_A_ROW: usize = 3;

/// A clock that shows steps at least so long, ns, is coarse. What it hides of
/// the time is the same again and again where it is read in step with it, as
/// timers are with jiffies: no statistics take that out.
const COARSE_NS: f64 = 2e4;

/// What clocks are read in, ns.
const LEAST_NS: f64 = 1.0;

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
struct SeriesOrigin {
    reference_ns: u64,
    offset_ns: i128,
}

/// One clock against one reference.
#[derive(Debug, Clone, Default)]
pub struct Series {
    origin: Option<SeriesOrigin>,
    readings: Vec<Bounded>,
    /// Where stretches begin that no step divides; the first at 0.
    cuts: Vec<usize>,
    steps: Vec<DriftStep>,
    rate_changes: Vec<RateChange>,
    /// First reading of the newest frequency.
    since: usize,
    lasting: Lasting,
    /// Readings in a row from before the start, and those dropped as outliers.
    before_start: usize,
    dropped: usize,
    /// Readings whose bounds are apart for the most part by the clock's own steps.
    coarse: usize,
    /// Readings that contradict those before them and after them, in order.
    outliers: Vec<usize>,
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
    pub fn push(&mut self, reading: DriftReading) -> Result<(), Refused> {
        let (low, high) = reading.bounds();
        if low > high {
            return Err(Refused::WentBack { by_ns: low - high });
        }
        let at_ns = reading.at_ns();
        let origin =
            *self.origin.get_or_insert(SeriesOrigin { reference_ns: at_ns, offset_ns: low });
        let elapsed_ns = i128::from(at_ns) - i128::from(origin.reference_ns);
        // The first readings may be the wrong ones, or else one or two here.
        if elapsed_ns < 0 && self.readings.len() >= lasting::START {
            self.before_start += 1;
            if self.before_start < lasting::LASTING {
                self.dropped += 1;
                return Ok(());
            }
            return Err(Refused::BeforeStart { by_ns: origin.reference_ns - at_ns });
        }
        self.before_start = 0;
        let inner_ns = 2.0 * reading.inner_step_ns();
        self.coarse += usize::from(inner_ns >= COARSE_NS && 2.0 * inner_ns >= (high - low) as f64);
        let bounded = Bounded {
            at_s: elapsed_ns as f64 / 1e9,
            low_ns: (low - origin.offset_ns) as f64,
            high_ns: (high - origin.offset_ns) as f64,
        };
        self.readings.push(bounded);
        let index = self.readings.len() - 1;
        if !self.hides_a_step((high - low) as f64) {
            let found = self.lasting.observe(bounded, index);
            self.note(found);
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

    /// No reading follows: decides what is undecided.
    pub fn finish(&mut self) {
        let found = self.lasting.finish();
        self.note(found);
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

    /// Readings that contradict those before them and those after them, by
    /// their places in [`Series::readings`], in order.
    pub fn outliers(&self) -> &[usize] {
        &self.outliers
    }

    /// The readings that are no outliers.
    fn right(&self) -> impl DoubleEndedIterator<Item = &Bounded> {
        let all = self.readings.iter().enumerate();
        all.filter(|(at, _)| self.outliers.binary_search(at).is_err()).map(|(_, one)| one)
    }

    fn note(&mut self, found: Vec<FoundStep>) {
        let readings = &self.readings;
        let at_s = |at: usize| readings.get(at).map_or(0.0, |reading| reading.at_s);
        for one in found {
            match one {
                FoundStep::Outlier(at) => self.outliers.push(at),
                FoundStep::Step(at, size) => {
                    let (ns, bound_ns) = (size.middle(), size.bound());
                    self.steps.push(DriftStep { at_s: at_s(at), ns, bound_ns });
                    self.cuts.push(at);
                }
                FoundStep::Rate { at, before, after } => {
                    let (before_ppm, after_ppm) = (before / 1e3, after / 1e3);
                    self.rate_changes.push(RateChange { at_s: at_s(at), before_ppm, after_ppm });
                    self.since = at;
                }
            }
        }
    }

    /// The stretches between steps, from reading `from` on.
    fn stretches(&self, from: usize) -> Vec<Vec<Bounded>> {
        let mut ends: Vec<usize> = self.cuts.iter().copied().filter(|cut| *cut > from).collect();
        ends.push(self.readings.len());
        let mut begin = from;
        let mut stretches = Vec::new();
        for end in ends {
            let part = (begin..end).filter(|at| self.outliers.binary_search(at).is_err());
            stretches.push(part.filter_map(|at| self.readings.get(at).copied()).collect());
            begin = end;
        }
        stretches.retain(|part: &Vec<Bounded>| !part.is_empty());
        stretches
    }

    /// The blocks that the frequency is fitted to, stretch by stretch.
    pub fn fitted(&self) -> Vec<Vec<filter::Block>> {
        let from = if self.readings.len() - self.since >= ENOUGH { self.since } else { 0 };
        fit(&self.stretches(from), 2 * self.coarse > self.readings.len()).1
    }

    /// What all readings so far come to; none without any.
    pub fn drift(&self) -> Option<Drift> {
        let origin = self.origin?;
        let (first, last) = (self.right().next()?, self.right().next_back()?);
        let from = if self.readings.len() - self.since >= ENOUGH { self.since } else { 0 };
        let stretches = self.stretches(from);
        let (frequency, parts) = fit(&stretches, 2 * self.coarse > self.readings.len());
        let blocks = parts.concat();
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
            readings: self.readings.len() + self.dropped,
            kept: blocks.iter().map(|block| block.kept).sum(),
            outliers: self.outliers.len() + self.dropped,
            span_s: last.at_s - first.at_s,
            least_delay_ns,
            median_delay_ns,
            frequency,
            offset: DriftOffset {
                ns: origin.offset_ns as f64 + ns,
                bound_ns: (end.width_ns() / 2.0).max(LEAST_NS),
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
/// drift was taken out of. The interval of coarse clocks is that of their bounds.
fn fit(
    stretches: &[Vec<Bounded>],
    is_coarse: bool,
) -> (Option<Frequency>, Vec<Vec<filter::Block>>) {
    let all = stretches.iter().map(|stretch| stretch.len()).sum();
    let tightest: Vec<Vec<Point>> =
        stretches.iter().map(|stretch| filter::tightest(stretch, all)).collect();
    let mut slope = theil_sen::slope(&tightest);
    let mut blocks: Vec<Vec<filter::Block>> = Vec::new();
    for _ in 0..ROUNDS {
        let about = slope.map_or(0.0, |slope| slope.estimate);
        let mut widths: Vec<f64> =
            blocks.iter().flatten().map(|block| block.best.width_ns()).collect();
        widths.sort_by(f64::total_cmp);
        let common_ns = theil_sen::median(&widths).unwrap_or(0.0).max(0.0);
        let part = |stretch: &Vec<Bounded>| filter::blocks(stretch, all, about, common_ns);
        let parts: Vec<Vec<filter::Block>> = stretches.iter().map(part).collect();
        let points: Vec<Vec<Point>> = parts
            .iter()
            .map(|part| part.iter().map(|block| block.best.middle()).collect())
            .collect();
        slope = theil_sen::slope(&points).or(slope);
        let longest = parts.iter().max_by_key(|part| part.len());
        if let (Some(slope), Some(part)) = (&mut slope, longest) {
            slope.interval = slope.interval.filter(|_| !is_coarse).or_else(|| slope_bounds(part));
            slope.interval = slope.interval.map(|interval| resolved(interval, part));
            slope.interval = slope.interval.map(|interval| one_sided(interval, &parts));
        }
        blocks = parts;
    }
    if let (Some(slope), true) = (&mut slope, is_coarse) {
        slope.interval = coarse_bounds(stretches);
    }
    (slope.map(Frequency::of_slope), blocks)
}

/// Between which slopes anything through the bounds of the first and the last
/// block runs: what is known where too few blocks leave Sen's interval open.
fn slope_bounds(blocks: &[filter::Block]) -> Option<(f64, f64)> {
    let slopes = lasting::slope(blocks.first()?.best, blocks.last()?.best)?;
    Some((slopes.low.min(slopes.high), slopes.low.max(slopes.high)))
}

/// Readings at either end of a stretch whose bounds decide about its slope.
const ENDS: usize = 24;

/// Between which slopes anything through the bounds of all stretches' ends
/// runs, whatever their clock hides.
fn coarse_bounds(stretches: &[Vec<Bounded>]) -> Option<(f64, f64)> {
    let slopes = |stretch: &Vec<Bounded>| {
        let half = ENDS.min(stretch.len() / 2);
        let (begin, end) = (&stretch[..half], &stretch[stretch.len() - half..]);
        let pairs = begin.iter().flat_map(|from| end.iter().map(|to| (*from, *to)));
        pairs.filter_map(|(from, to)| lasting::slope(from, to)).collect::<Vec<_>>()
    };
    let all = stretches.iter().flat_map(slopes).map(|one| (one.low, one.high));
    all.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1))).filter(|(low, high)| low <= high)
}

/// An interval that also allows for delays that became longer or shorter during
/// the run on one of the two ways alone, as they do where replies wait for a busy
/// machine: that moves the middle of the bounds by half of what it adds to
/// their width, for many blocks in a row, which Sen's interval takes for drift.
fn one_sided((low, high): (f64, f64), parts: &[Vec<filter::Block>]) -> (f64, f64) {
    let widths = |part: &Vec<filter::Block>| {
        part.iter().map(|block| (block.best.at_s, block.best.width_ns())).collect()
    };
    let widths: Vec<Vec<Point>> = parts.iter().map(widths).collect();
    let by = theil_sen::slope(&widths).map_or(0.0, |slope| slope.estimate.abs() / 2.0);
    (low - by, high + by)
}

/// An interval that also allows for what points on whole nanoseconds or whole ticks
/// hide: slopes that are all the same are those of the ticks, and two clocks latched
/// at one instant gain 0.3 ns on each other in a second as 0 or 1, where they happen
/// to stand.
fn resolved((low, high): (f64, f64), blocks: &[filter::Block]) -> (f64, f64) {
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return (low, high) };
    let length_s = last.best.at_s - first.best.at_s;
    if length_s <= 0.0 {
        return (low, high);
    }
    let are_tied = (high - low) * length_s < LEAST_NS;
    let widths = blocks.iter().map(|block| block.best.width_ns()).filter(|_| are_tied);
    let hidden = widths.reduce(f64::min).unwrap_or(0.0).max(LEAST_NS) / length_s;
    (low - hidden, high + hidden)
}

#[cfg(test)]
mod tests;
