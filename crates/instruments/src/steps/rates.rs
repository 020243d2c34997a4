//! The rates that two brackets allow.

use pvclock::units::{Bracket, Interval};

/// How fast the inner clock may run, in its units to one of the outer clock's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates(Interval<f64>);

impl Rates {
    /// From `low` to `high`.
    pub fn new(low: f64, high: f64) -> Self {
        Self(Interval { low, high })
    }

    /// The rates that explain two brackets without a step; `inner_step` is
    /// the inner clock's resolution. `None` unless both clocks surely went
    /// forward.
    pub fn between(first: Bracket, last: Bracket, inner_step: f64) -> Option<Self> {
        let outer = outer_difference(first, last);
        let inner = inner_difference(first, last, inner_step);
        (outer.low > 0.0 && inner.low > 0.0)
            .then(|| Self(Interval { low: inner.low / outer.high, high: inner.high / outer.low }))
    }

    /// The estimate.
    pub fn middle(self) -> f64 {
        self.0.middle()
    }

    /// The estimate's bound, relative to it.
    pub fn relative_bound(self) -> f64 {
        self.0.bound() / self.0.middle()
    }

    /// As wide again by `part` of each end: for a clock that wanders.
    #[must_use]
    pub fn widened(self, part: f64) -> Self {
        Self(Interval { low: self.0.low * (1.0 - part), high: self.0.high * (1.0 + part) })
    }

    /// What of the inner clock's way from one bracket to the next these rates
    /// leave unexplained, in its units.
    pub fn residual(self, first: Bracket, last: Bracket, inner_step: f64) -> Interval<f64> {
        let explained = product(outer_difference(first, last), self.0);
        inner_difference(first, last, inner_step) - explained
    }
}

/// The bounds of a product, signs and all.
fn product(one: Interval<f64>, other: Interval<f64>) -> Interval<f64> {
    let ends =
        [one.low * other.low, one.low * other.high, one.high * other.low, one.high * other.high];
    Interval {
        low: ends.into_iter().fold(f64::INFINITY, f64::min),
        high: ends.into_iter().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// How far the outer clock went between the two inner readings.
fn outer_difference(first: Bracket, last: Bracket) -> Interval<f64> {
    Interval {
        low: difference(first.after, last.before),
        high: difference(first.before, last.after),
    }
}

/// How far the inner clock went: each reading may be `step` behind it.
fn inner_difference(first: Bracket, last: Bracket, step: f64) -> Interval<f64> {
    Interval::plus_minus(difference(first.inner, last.inner), step)
}

/// Differences first: readings may be far beyond 2^53.
fn difference(from: u64, to: u64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}
