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

use pvclock::units::Interval;

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

/// A pause that nothing showed moves the line's ends apart by so many bounds at most.
const HIDDEN: f64 = 8.0;

/// A frequency correction, as `adjtimex` has it: positive where the uncorrected
/// clock is slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LearntFrequency {
    /// Parts per billion.
    pub ppb: f64,
    /// It is right within this, parts per billion.
    pub uncertainty_ppb: f64,
}

/// Nothing is known of a slope.
const ANY: Interval<f64> = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };

/// One offset of the uncorrected clock.
#[derive(Debug, Clone, Copy)]
struct FrequencyPoint {
    at_ns: u64,
    offset: Interval<f64>,
    /// Where in that it probably is, ns.
    likely_ns: f64,
}

impl FrequencyPoint {
    /// The slopes of the lines through this and a `later` one.
    fn slopes_to(&self, later: &Self) -> Interval<f64> {
        let elapsed = later.at_ns.saturating_sub(self.at_ns).max(1) as f64;
        Interval {
            low: (later.offset.low - self.offset.high) / elapsed,
            high: (later.offset.high - self.offset.low) / elapsed,
        }
    }

    /// What it is weighed by, ns.
    fn bound_ns(&self) -> f64 {
        self.offset.bound().max(1.0)
    }
}

/// The line of least squares, at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrequencyLine {
    /// Its offset then, ns, and the standard error of that.
    pub(crate) offset_ns: f64,
    pub(crate) offset_error_ns: f64,
    /// Its slope, ppb, and the standard error of that.
    pub(crate) ppb: f64,
    pub(crate) error_ppb: f64,
    /// The standard deviation of the tightest offset, ns.
    pub(crate) noise_ns: f64,
}

/// Offsets of the uncorrected clock since it was last disturbed.
#[derive(Debug, Clone)]
pub(crate) struct History {
    points: Vec<FrequencyPoint>,
    /// The slopes of all lines through all intervals: those that each pair allows (that
    /// pairs are enough is Helly's theorem on the line).
    slopes: Interval<f64>,
    spacing_ns: u64,
    misfits: u32,
    /// The last one is on no line through those before, not only off the most probable.
    is_contradicted: bool,
}

impl Default for History {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            slopes: ANY,
            spacing_ns: FIRST_SPACING_NS,
            misfits: 0,
            is_contradicted: false,
        }
    }
}

impl History {
    /// Adds what was measured at `at_ns`; of two that are close the tighter is
    /// kept. What is off the line by where it is `likely` is left out.
    pub(crate) fn add(&mut self, at_ns: u64, offset: Interval<f64>, likely_ns: Option<f64>) {
        let is_off =
            likely_ns.is_some_and(|likely_ns| self.is_off(at_ns, likely_ns, offset.bound()));
        let likely_ns = likely_ns.unwrap_or(offset.middle());
        let point = FrequencyPoint { at_ns, offset, likely_ns };
        if let Some(last) = self.points.last_mut()
            && at_ns.saturating_sub(last.at_ns) < self.spacing_ns
        {
            if offset.bound() < last.offset.bound() {
                *last = point;
                self.compare();
            }
            return;
        }
        let slopes = self.slopes_with(&point);
        self.is_contradicted = self.points.len() > 1 && slopes.is_empty();
        if is_off || self.is_contradicted {
            return self.misfit(point);
        }
        (self.misfits, self.slopes) = (0, slopes);
        self.points.push(point);
        if self.points.len() > CAPACITY {
            self.thin();
        }
    }

    /// The slopes of all lines that go through this one as well.
    fn slopes_with(&self, point: &FrequencyPoint) -> Interval<f64> {
        self.points.iter().fold(self.slopes, |all, one| all.overlap(one.slopes_to(point)))
    }

    /// It does not fit: it is wrong, or all before it are outdated.
    fn misfit(&mut self, point: FrequencyPoint) {
        self.misfits += 1;
        if self.misfits >= MISFITS {
            *self = Self { points: vec![point], ..Self::default() };
        }
    }

    /// Whether the last one is on the line of those before.
    pub(crate) fn fits(&self) -> bool {
        self.misfits == 0
    }

    /// Keeps every second one; or drops the oldest, where they come no closer.
    fn thin(&mut self) {
        let at = |point: Option<&FrequencyPoint>| point.map_or(0, |point| point.at_ns);
        let reach_ns = at(self.points.last()).saturating_sub(at(self.points.first()));
        let is_sparse = reach_ns > 2 * LAST_SPACING_NS * CAPACITY as u64;
        if is_sparse || self.spacing_ns >= LAST_SPACING_NS {
            self.points.remove(0);
        } else {
            self.spacing_ns *= 2;
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        self.compare();
    }

    /// Compares each pair, as others than the last went.
    fn compare(&mut self) {
        self.slopes = ANY;
        for (at, later) in self.points.iter().enumerate() {
            let with = |all: Interval<f64>, one: &FrequencyPoint| all.overlap(one.slopes_to(later));
            self.slopes = self.points[..at].iter().fold(self.slopes, with);
        }
    }

    /// Between which figures the frequency lies, ppb; `None` while too little
    /// is known.
    pub(crate) fn frequency_ppb(&self) -> Option<Interval<f64>> {
        let Interval { low, high } = self.slopes;
        (self.points.len() >= FEWEST && low <= high)
            .then_some(Interval { low: low * 1e9, high: high * 1e9 })
    }

    /// The same, for a bound, with room for a pause that nothing showed: it bends the line, and fits
    /// into the bounds at its ends while it is shorter than four of them. `None` too while the last
    /// contradicts those before.
    pub(crate) fn known_ppb(&self) -> Option<Interval<f64>> {
        let known = self.frequency_ppb().filter(|_| !self.is_contradicted)?;
        let (first, last) = self.points.first().zip(self.points.last())?;
        let widest_ns = self.points.iter().map(FrequencyPoint::bound_ns).fold(0.0, f64::max);
        let reach_ns = last.at_ns.saturating_sub(first.at_ns).max(1) as f64;
        let hidden_ppb = HIDDEN * widest_ns / reach_ns * 1e9;
        Some(Interval { low: known.low - hidden_ppb, high: known.high + hidden_ppb })
    }

    /// How often, one after another, two of them show a frequency that is not within
    /// `ppb`.
    pub(crate) fn moves_beyond(&self, ppb: Interval<f64>) -> usize {
        let Some(mut from) = self.points.first() else { return 0 };
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

    /// The line of least squares at `at_ns`, and its slope within what is known of the
    /// frequency, ppb; `None` while too little is.
    pub(crate) fn known_line(&self, at_ns: u64) -> Option<(FrequencyLine, f64)> {
        let (line, known) = self.line(at_ns).zip(self.frequency_ppb())?;
        Some((line, line.ppb.clamp(known.low, known.high)))
    }

    /// The tightest bound, 1 ns at least.
    fn least_bound_ns(&self) -> f64 {
        self.points.iter().map(FrequencyPoint::bound_ns).fold(f64::MAX, f64::min)
    }

    /// The line of least squares at `at_ns`; `None` while there are too few.
    fn line(&self, at_ns: u64) -> Option<FrequencyLine> {
        if self.points.len() < FEWEST {
            return None;
        }
        // Beside the last, as what was corrected in all may be much.
        let base = self.points.last()?.likely_ns;
        let least_bound_ns = self.least_bound_ns();
        let weighted = || {
            self.points.iter().map(|point| {
                let x = point.at_ns as f64 - at_ns as f64;
                let weight = (least_bound_ns / point.bound_ns()).powi(2);
                (weight, x, point.likely_ns - base)
            })
        };
        let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (weight, at, of) in weighted() {
            n += weight;
            x += weight * at;
            y += weight * of;
            xx += weight * at * at;
            xy += weight * at * of;
        }
        let determinant = n * xx - x * x;
        let slope = (n * xy - x * y) / determinant;
        let offset = (y - slope * x) / n;
        let squares: f64 =
            weighted().map(|(weight, x, y)| weight * (y - offset - slope * x).powi(2)).sum();
        let noise_ns = (squares / (self.points.len() - 2) as f64).sqrt();
        let line = FrequencyLine {
            offset_ns: base + offset,
            offset_error_ns: noise_ns * (xx / determinant).sqrt(),
            ppb: slope * 1e9,
            error_ppb: noise_ns * (n / determinant).sqrt() * 1e9,
            noise_ns,
        };
        [line.offset_ns, line.ppb].iter().all(|it| it.is_finite()).then_some(line)
    }

    /// Whether an offset at its time is off the line by more than the noise, and than
    /// its own delay explains. What is far within the bound does no harm.
    fn is_off(&self, at_ns: u64, likely_ns: f64, bound_ns: f64) -> bool {
        let least_bound_ns = self.least_bound_ns();
        self.line(at_ns).is_some_and(|line| {
            let noise_ns = line.noise_ns.hypot(line.offset_error_ns);
            let late_ns = (bound_ns - least_bound_ns).max(0.0);
            let off_ns = (likely_ns - line.offset_ns).abs();
            off_ns > OUTLYING * noise_ns.max(least_bound_ns / 40.0) + late_ns
        })
    }
}
