//! An oscillator's frequency error, from offsets with bounds.
//!
//! Each offset says where true time was within an interval, so each pair of them
//! says between which slopes the line through the truth lies; what all pairs
//! allow is the frequency, and half its width the uncertainty. Two offsets that
//! are known to 1 µs and 100 s apart leave ± 2 µs / 100 s = ± 20 ppb. Nothing
//! is assumed of the noise but the bounds: a tight offset narrows the result, a
//! vague one (a delayed read) changes nothing.
//!
//! Offsets are kept as if the clock had never been corrected, so that
//! corrections leave the line straight.

use std::collections::VecDeque;

use instruments::steps::Interval;

/// Offsets kept.
const CAPACITY: usize = 32;

/// Fewer show no frequency: a jump between two of three looks like one.
const FEWEST: usize = 5;

/// The least time between two that are kept, at first, ns: the interval of
/// samples. It doubles each time that the history is full.
const FIRST_SPACING_NS: u64 = 400_000_000;

/// And at last: 32 offsets then reach back 4 minutes, in which an oscillator's
/// temperature changes little.
const LAST_SPACING_NS: u64 = 8_000_000_000;

/// Offsets in a row that do not fit the line: then it is the oscillator that
/// has changed.
const MISFITS: u32 = 3;

/// A frequency correction, as `adjtimex` has it: positive where the uncorrected
/// clock is slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frequency {
    /// Parts per billion.
    pub ppb: f64,
    /// It is right within this, parts per billion.
    pub uncertainty_ppb: f64,
}

/// One offset of the uncorrected clock.
#[derive(Debug, Clone, Copy)]
struct Point {
    at_ns: u64,
    offset: Interval,
}

/// Offsets of the uncorrected clock since it was last disturbed.
#[derive(Debug, Clone)]
pub(crate) struct History {
    points: VecDeque<Point>,
    spacing_ns: u64,
    misfits: u32,
}

impl Default for History {
    fn default() -> Self {
        Self { points: VecDeque::new(), spacing_ns: FIRST_SPACING_NS, misfits: 0 }
    }
}

impl History {
    /// Adds what was measured at `at_ns`; of two that are close the tighter is
    /// kept.
    pub(crate) fn add(&mut self, at_ns: u64, offset: Interval) {
        let point = Point { at_ns, offset };
        if let Some(last) = self.points.back_mut()
            && at_ns.saturating_sub(last.at_ns) < self.spacing_ns
        {
            if offset.bound() < last.offset.bound() {
                *last = point;
            }
            return;
        }
        self.points.push_back(point);
        if self.points.len() > 2 && self.slopes().is_none() {
            self.misfit();
        } else {
            self.misfits = 0;
        }
        if self.points.len() > CAPACITY {
            self.thin();
        }
    }

    /// The last one does not fit: it is wrong, or all before it are outdated.
    fn misfit(&mut self) {
        self.misfits += 1;
        if self.misfits < MISFITS {
            self.points.pop_back();
        } else {
            let last = self.points.pop_back();
            *self = Self::default();
            self.points.extend(last);
        }
    }

    /// Keeps every second one, or drops the oldest.
    fn thin(&mut self) {
        if self.spacing_ns >= LAST_SPACING_NS {
            self.points.pop_front();
            return;
        }
        self.spacing_ns *= 2;
        let mut is_kept = false;
        self.points.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }

    /// Between which figures the frequency lies, ppb; `None` while too little
    /// is known.
    pub(crate) fn frequency_ppb(&self) -> Option<Interval> {
        if self.points.len() < FEWEST {
            return None;
        }
        let slopes = self.slopes()?;
        Some(Interval { low: slopes.low * 1e9, high: slopes.high * 1e9 })
    }

    /// The slopes of all lines through all intervals: those that each pair
    /// allows (that pairs are enough is Helly's theorem on the line).
    fn slopes(&self) -> Option<Interval> {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for (index, later) in self.points.iter().enumerate() {
            for earlier in self.points.iter().take(index) {
                let elapsed = (later.at_ns - earlier.at_ns).max(1) as f64;
                low = low.max((later.offset.low - earlier.offset.high) / elapsed);
                high = high.min((later.offset.high - earlier.offset.low) / elapsed);
            }
        }
        (low <= high).then_some(Interval { low, high })
    }
}
