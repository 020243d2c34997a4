//! Offsets, and lines through them.

use pvclock::units::Interval;

/// Nothing is known of a slope.
pub(super) const ANY: Interval<f64> = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };

/// One offset of the uncorrected clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrequencyPoint {
    pub(super) at_ns: u64,
    pub(super) offset: Interval<f64>,
    /// Where in that it probably is, ns.
    pub(super) likely_ns: f64,
    /// What it weighs in the line.
    pub(super) weight: f64,
    /// The slopes of the lines through it and each later one that it was compared with.
    pub(super) slopes: Interval<f64>,
}

impl FrequencyPoint {
    /// The slopes of the lines through this and a `later` one.
    pub(super) fn slopes_to(&self, later: &Self) -> Interval<f64> {
        let elapsed = later.at_ns.saturating_sub(self.at_ns).max(1) as f64;
        Interval {
            low: (later.offset.low - self.offset.high) / elapsed,
            high: (later.offset.high - self.offset.low) / elapsed,
        }
    }
}

/// The line of least squares, at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrequencyLine {
    /// Its offset then, ns, and the standard error of that.
    pub(crate) offset_ns: f64,
    pub(crate) offset_error_ns: f64,
    /// Its slope, ppb, and the standard error of that.
    pub(crate) ppb: f64,
    pub(crate) error_ppb: f64,
    /// The standard deviation of the tightest offset, ns, and its bound.
    pub(crate) noise_ns: f64,
    pub(super) least_bound_ns: f64,
}

/// A line through all intervals. While it is known, pairs need not be compared: they
/// allow its slope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Through {
    pub(super) line: FrequencyLine,
    pub(super) at_ns: u64,
    /// It is within each by this at least, ns.
    pub(super) within_ns: f64,
    /// It is the line of least squares of all of them: none came or went since.
    pub(super) is_of_all: bool,
}

impl Through {
    /// Where it is at `at_ns`, ns.
    pub(super) fn offset_ns(&self, at_ns: u64) -> f64 {
        self.line.offset_ns + self.line.ppb * 1e-9 * (ns(at_ns) - ns(self.at_ns))
    }

    /// By how much it is within the interval for certain, however sums were rounded, ns.
    pub(super) fn within_ns(&self, point: &FrequencyPoint) -> f64 {
        let at = self.offset_ns(point.at_ns);
        let within = (at - point.offset.low).min(point.offset.high - at);
        within - 1.0 - 1e-9 * at.abs()
    }

    /// How far another is from it at most between two times, ns: lines are farthest from
    /// each other at an end.
    pub(super) fn apart_ns(&self, other: &Self, ends_ns: [u64; 2]) -> f64 {
        let [one, two] = ends_ns.map(|at| (self.offset_ns(at) - other.offset_ns(at)).abs());
        one.max(two)
    }
}

/// A time of less than 292 years, ns: a signed number is the one that processors convert.
pub(super) fn ns(at_ns: u64) -> f64 {
    at_ns.cast_signed() as f64
}

/// What one is weighed by, ns.
pub(super) fn bound_ns(of: &FrequencyPoint) -> f64 {
    of.offset.bound().max(1.0)
}
