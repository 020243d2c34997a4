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

mod line;

use pvclock::units::Interval;

pub(crate) use line::FrequencyLine;
use line::{ANY, FrequencyPoint, Through, bound_ns, ns};

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

/// Offsets of the uncorrected clock since it was last disturbed.
#[derive(Debug, Clone)]
pub(crate) struct History {
    points: Vec<FrequencyPoint>,
    /// So many of them were compared with those before.
    compared: usize,
    through: Option<Through>,
    /// The tightest bound, 1 ns at least.
    least_bound_ns: f64,
    spacing_ns: u64,
    misfits: u32,
    /// The last one is on no line through those before, not only off the most probable.
    is_contradicted: bool,
}

impl Default for History {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            compared: 0,
            through: None,
            least_bound_ns: f64::MAX,
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
        let point = FrequencyPoint { at_ns, offset, likely_ns, weight: 1.0, slopes: ANY };
        if let Some(last) = self.points.last_mut()
            && at_ns.saturating_sub(last.at_ns) < self.spacing_ns
        {
            if offset.bound() < last.offset.bound() {
                *last = point;
                self.compare_anew();
            }
            return;
        }
        self.is_contradicted = self.points.len() > 1 && !self.allows(&point);
        if is_off || self.is_contradicted {
            return self.misfit(point);
        }
        self.misfits = 0;
        self.push(point);
        if self.points.len() > CAPACITY {
            self.thin();
        }
    }

    /// Whether a line goes through all intervals and this one.
    fn allows(&mut self, point: &FrequencyPoint) -> bool {
        self.through.is_some_and(|line| line.within_ns(point) > 0.0) || {
            let slopes = self.slopes();
            let with =
                |slopes: Interval<f64>, one: &FrequencyPoint| slopes.overlap(one.slopes_to(point));
            !self.points.iter().fold(slopes, with).is_empty()
        }
    }

    /// Adds one that fits.
    fn push(&mut self, point: FrequencyPoint) {
        let through = self.through.map(|it| {
            let within_ns = it.within_ns.min(it.within_ns(&point));
            Through { within_ns, is_of_all: false, ..it }
        });
        self.through = through.filter(|it| it.within_ns > 0.0);
        self.points.push(point);
        self.weigh(bound_ns(&point) < self.least_bound_ns);
    }

    /// It does not fit: it is wrong, or all before it are outdated.
    fn misfit(&mut self, point: FrequencyPoint) {
        self.misfits += 1;
        if self.misfits >= MISFITS {
            *self = Self::default();
            self.push(point);
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
            let first = self.points.remove(0);
            self.compared = self.compared.saturating_sub(1);
            if bound_ns(&first) <= self.least_bound_ns {
                self.weigh(true);
            }
            return;
        }
        self.spacing_ns *= 2;
        let mut is_kept = false;
        self.points.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        self.compare_anew();
    }

    /// Others than the first went.
    fn compare_anew(&mut self) {
        (self.compared, self.through) = (0, None);
        self.points.iter_mut().for_each(|one| one.slopes = ANY);
        self.weigh(true);
    }

    /// Weighs by the tightest: all of them, or the last.
    fn weigh(&mut self, all: bool) {
        if all {
            self.least_bound_ns = self.points.iter().map(bound_ns).fold(f64::MAX, f64::min);
        }
        let from = if all { 0 } else { self.points.len().saturating_sub(1) };
        for one in self.points.iter_mut().skip(from) {
            one.weight = (self.least_bound_ns / bound_ns(one)).powi(2);
        }
    }

    /// The slopes of all lines through all intervals: those that each pair allows (that
    /// pairs are enough is Helly's theorem on the line).
    fn slopes(&mut self) -> Interval<f64> {
        for at in self.compared..self.points.len() {
            let (before, later) = self.points.split_at_mut(at);
            let with = |one: &mut FrequencyPoint| {
                one.slopes = one.slopes.overlap(one.slopes_to(&later[0]))
            };
            before.iter_mut().for_each(with);
        }
        self.compared = self.points.len();
        self.points.iter().fold(ANY, |all, one| all.overlap(one.slopes))
    }

    /// Between which figures the frequency lies, ppb; `None` while too little
    /// is known.
    pub(crate) fn frequency_ppb(&mut self) -> Option<Interval<f64>> {
        if self.points.len() < FEWEST {
            return None;
        }
        let Interval { low, high } = self.slopes();
        (low <= high).then_some(Interval { low: low * 1e9, high: high * 1e9 })
    }

    /// The same, for a bound, with room for a pause that nothing showed: it bends the line, and fits
    /// into the bounds at its ends while it is shorter than four of them. `None` too while the last
    /// contradicts those before.
    pub(crate) fn known_ppb(&mut self) -> Option<Interval<f64>> {
        let known = self.frequency_ppb().filter(|_| !self.is_contradicted)?;
        let (first, last) = self.points.first().zip(self.points.last())?;
        let widest_ns = self.points.iter().map(bound_ns).fold(0.0, f64::max);
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
    pub(crate) fn known_line(&mut self, at_ns: u64) -> Option<(FrequencyLine, f64)> {
        let line = self.line(at_ns)?;
        let mut through = Through { line, at_ns, within_ns: 0.0, is_of_all: true };
        if let (Some(last), [from, .., to]) = (&self.through, &self.points[..]) {
            // Both ends are rounded.
            let apart_ns = last.apart_ns(&through, [from.at_ns, to.at_ns]) + 2.0;
            through.within_ns = last.within_ns - apart_ns;
        }
        if through.within_ns <= 0.0 {
            let each = self.points.iter().map(|point| through.within_ns(point));
            through.within_ns = each.fold(f64::MAX, f64::min);
        }
        self.through = Some(through).filter(|it| it.within_ns > 0.0);
        if self.through.is_some() {
            return Some((line, line.ppb));
        }
        let known = self.frequency_ppb()?;
        Some((line, line.ppb.clamp(known.low, known.high)))
    }

    /// Whether a frequency of no more than this explains all of it.
    pub(crate) fn may_be_within(&mut self, most_ppb: f64) -> bool {
        if let (None, Some(last)) = (&self.through, self.points.last()) {
            self.known_line(last.at_ns);
        }
        self.through.is_some_and(|it| it.line.ppb.abs() <= most_ppb)
    }

    /// The line of least squares at `at_ns`; `None` while there are too few.
    fn line(&self, at_ns: u64) -> Option<FrequencyLine> {
        if self.points.len() < FEWEST {
            return None;
        }
        // Beside the last, as what was corrected in all may be much.
        let base = self.points.last()?.likely_ns;
        let at = ns(at_ns);
        let weighted = || {
            self.points.iter().map(|point| {
                let x = ns(point.at_ns) - at;
                (point.weight, x, point.likely_ns - base)
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
            least_bound_ns: self.least_bound_ns,
        };
        [line.offset_ns, line.ppb].iter().all(|it| it.is_finite()).then_some(line)
    }

    /// Whether a line is not continued for longer than it is long.
    fn is_near(&self, known: &Through, at_ns: u64) -> bool {
        let long_ns = self.points.first().map_or(0, |it| known.at_ns.saturating_sub(it.at_ns));
        at_ns.saturating_sub(known.at_ns) <= long_ns
    }

    /// Whether an offset at its time is off the line by more than the noise, and than
    /// its own delay explains. What is far within the bound does no harm.
    fn is_off(&self, at_ns: u64, likely_ns: f64, bound_ns: f64) -> bool {
        if let Some(known) = self.through.filter(|it| it.is_of_all && self.is_near(it, at_ns)) {
            // The line at another time is rounded otherwise: where it is near to what is
            // noise, it is drawn again.
            let noise_ns = (OUTLYING * known.line.noise_ns).max(self.least_bound_ns / 10.0);
            let late_ns = (bound_ns - self.least_bound_ns).max(0.0);
            let off_ns = (likely_ns - known.offset_ns(at_ns)).abs();
            if off_ns < 0.999 * (noise_ns + late_ns) - 1.0 {
                return false;
            }
        }
        self.line(at_ns).is_some_and(|line| {
            let noise_ns = line.noise_ns.hypot(line.offset_error_ns);
            let late_ns = (bound_ns - line.least_bound_ns).max(0.0);
            let off_ns = (likely_ns - line.offset_ns).abs();
            off_ns > OUTLYING * noise_ns.max(line.least_bound_ns / 40.0) + late_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line through all intervals spares is what the pairs, and a line drawn anew,
    /// would have said, to the last bit.
    #[test]
    fn shortcuts_say_what_all_pairs_say() {
        let mut state = 7_u64;
        let mut unit = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut history, mut at_ns, mut spared, mut outliers) = (History::default(), 0, 0, 0);
        for turn in 0..20_000 {
            at_ns += if turn % 300 < 5 { 700_000_000 } else { 64_000_000_000 };
            let bound_ns = 6e6 + if unit() < 0.1 { 1e7 * unit() } else { 3e5 * unit() };
            // A pause now and then, noise, and a reply that is late.
            let moved_ns = 2e7 * f64::from(turn / 700) + if unit() < 0.02 { 5e6 } else { 0.0 };
            let likely_ns = at_ns as f64 * 2e-6 + moved_ns + 6e5 * (unit() - 0.5);
            let offset = Interval { low: likely_ns - bound_ns, high: likely_ns + bound_ns };
            let mut plain = history.clone();
            plain.compare_anew();
            let is_off = history.is_off(at_ns, likely_ns, bound_ns);
            assert_eq!(is_off, plain.is_off(at_ns, likely_ns, bound_ns), "{turn}");
            outliers += usize::from(is_off);
            history.add(at_ns, offset, Some(likely_ns));
            plain.add(at_ns, offset, Some(likely_ns));
            assert_eq!(history.points.len(), plain.points.len(), "{turn}");
            let known = plain.frequency_ppb().zip(plain.line(at_ns));
            let known = known.map(|(known, line)| line.ppb.clamp(known.low, known.high));
            assert_eq!(history.known_line(at_ns).map(|(_, ppb)| ppb), known, "{turn}");
            spared += usize::from(history.through.is_some());
        }
        assert!(spared > 15_000 && outliers > 100, "{spared} {outliers}");
    }
}
