//! An oscillator's frequency error, from offsets with bounds.
//!
//! Each offset says where true time was within an interval, so each pair of them
//! says between which slopes the line through the truth lies; what all pairs
//! allow is the frequency, and half its width the uncertainty. Two offsets that
//! are known to 1 µs and 100 s apart leave ± 2 µs / 100 s = ± 20 ppb. Nothing
//! is assumed of the noise but the bounds: a tight offset narrows the result, a
//! vague one (a delayed read) changes nothing.
//!
//! Of servers the bounds are wide beside the noise. The most probable line is then
//! the one of least squares, an offset weighted by the square of its bound, as one
//! of twice the delay may be off by twice as much (RFC 5905, section 11.2.1, has
//! the same idea); a reply off that line by more than the noise is an outlier. What
//! is proven still holds the frequency within it.
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

/// What is off the line by so many standard deviations is no noise.
const OUTLYING: f64 = 4.0;

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
    /// Where in that it probably is, ns.
    likely_ns: f64,
}

/// The line of least squares, at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    /// Its offset then, ns, and the standard error of that.
    pub(crate) offset_ns: f64,
    pub(crate) offset_error_ns: f64,
    /// Its slope, ppb, and the standard error of that.
    pub(crate) ppb: f64,
    pub(crate) error_ppb: f64,
    /// The standard deviation of the tightest offset, ns, and its bound.
    pub(crate) noise_ns: f64,
    least_bound_ns: f64,
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
    /// kept. What is off the line by where it is `likely` is left out.
    pub(crate) fn add(&mut self, at_ns: u64, offset: Interval, likely_ns: Option<f64>) {
        let is_off =
            likely_ns.is_some_and(|likely_ns| self.is_off(at_ns, likely_ns, offset.bound()));
        let likely_ns = likely_ns.unwrap_or(offset.middle());
        let point = Point { at_ns, offset, likely_ns };
        if let Some(last) = self.points.back_mut()
            && at_ns.saturating_sub(last.at_ns) < self.spacing_ns
        {
            if offset.bound() < last.offset.bound() {
                *last = point;
            }
            return;
        }
        self.points.push_back(point);
        if is_off || self.points.len() > 2 && self.slopes().is_none() {
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

    /// Whether the last one is on the line of those before.
    pub(crate) fn fits(&self) -> bool {
        self.misfits == 0
    }

    /// Keeps every second one; or drops the oldest, where they come no closer.
    fn thin(&mut self) {
        let at = |point: Option<&Point>| point.map_or(0, |point| point.at_ns);
        let reach_ns = at(self.points.back()).saturating_sub(at(self.points.front()));
        let is_sparse = reach_ns > 2 * LAST_SPACING_NS * CAPACITY as u64;
        if is_sparse || self.spacing_ns >= LAST_SPACING_NS {
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

    /// How often, one after another, two of them show a frequency that is not within
    /// `ppb`.
    pub(crate) fn moves_beyond(&self, ppb: Interval) -> usize {
        let Some(mut from) = self.points.front() else { return 0 };
        let mut count = 0;
        for to in &self.points {
            let by = |ppb: f64| ppb * 1e-9 * to.at_ns.saturating_sub(from.at_ns) as f64;
            let (low, high) = (to.offset.low - from.offset.high, to.offset.high - from.offset.low);
            if low > by(ppb.high) || high < by(ppb.low) {
                (from, count) = (to, count + 1);
            }
        }
        count
    }

    /// The line of least squares at `at_ns`; `None` while there are too few.
    pub(crate) fn line(&self, at_ns: u64) -> Option<Line> {
        if self.points.len() < FEWEST {
            return None;
        }
        let bounds = self.points.iter().map(|point| point.offset.bound());
        let least_bound_ns = bounds.fold(f64::MAX, f64::min).max(1.0);
        // Beside the last, as what was corrected in all may be much.
        let base = self.points.back()?.likely_ns;
        let weighted = || {
            self.points.iter().map(|point| {
                let weight = (least_bound_ns / point.offset.bound().max(1.0)).powi(2);
                let x = point.at_ns as f64 - at_ns as f64;
                (weight, x, point.likely_ns - base)
            })
        };
        let [n, x, y, xx, xy] = weighted().fold([0.0; 5], |[n, sx, sy, xx, xy], (w, x, y)| {
            [n + w, sx + w * x, sy + w * y, xx + w * x * x, xy + w * x * y]
        });
        let determinant = n * xx - x * x;
        let slope = (n * xy - x * y) / determinant;
        let offset = (y - slope * x) / n;
        let squares: f64 =
            weighted().map(|(weight, x, y)| weight * (y - offset - slope * x).powi(2)).sum();
        let noise_ns = (squares / (self.points.len() - 2) as f64).sqrt();
        let line = Line {
            offset_ns: base + offset,
            offset_error_ns: noise_ns * (xx / determinant).sqrt(),
            ppb: slope * 1e9,
            error_ppb: noise_ns * (n / determinant).sqrt() * 1e9,
            noise_ns,
            least_bound_ns,
        };
        [line.offset_ns, line.ppb].iter().all(|it| it.is_finite()).then_some(line)
    }

    /// Whether an offset at its time is off the line by more than the noise, and than
    /// its own delay explains. What is far within the bound does no harm.
    fn is_off(&self, at_ns: u64, likely_ns: f64, bound_ns: f64) -> bool {
        self.line(at_ns).is_some_and(|line| {
            let noise_ns = line.noise_ns.hypot(line.offset_error_ns);
            let late_ns = (bound_ns - line.least_bound_ns).max(0.0);
            let off_ns = (likely_ns - line.offset_ns).abs();
            off_ns > OUTLYING * noise_ns.max(line.least_bound_ns / 40.0) + late_ns
        })
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
