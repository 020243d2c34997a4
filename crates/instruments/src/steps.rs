//! Steps: where one clock moved against another by more than its rate explains.
//!
//! Two clocks cannot be read at the same instant, and between two reads a
//! scheduler may put any delay. So one is read *between two reads of the
//! other*, a [`Bracket`], and from that follows what is certain: the inner
//! reading was taken while the outer clock stood between its two. Everything
//! here computes with such intervals. A step is reported when no value inside
//! them explains what was read without one; a delay only widens a bracket,
//! and a wide bracket can hide a step but not make one up.
//!
//! | clocks | what is known of their rates | instrument |
//! | --- | --- | --- |
//! | REALTIME or BOOTTIME in MONOTONIC | the same, always | [`ConstantOffset`] |
//! | MONOTONIC in MONOTONIC_RAW | reported by adjtimex, within bounds | [`Slewed`] |
//! | MONOTONIC_RAW in the TSC | constant, to be learnt | [`LearntRate`] |
//! | two versions of a kvm-clock page | in both pages | [`page`] |

mod learnt;
pub mod page;

pub use learnt::{LearntRate, RateMove};

use pvclock::units::{Bracket, Interval};

/// Two clocks of one rate: their offset changes by steps alone.
///
/// Each bracket bounds the offset; all brackets since the last step together
/// bound it far better than the tightest of them, so a
/// step of a few nanoseconds is found though no single read is that quick.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConstantOffset {
    known: Option<Interval<i128>>,
}

/// Readings are cut to whole nanoseconds, so a clock is up to this much
/// ahead of what it shows.
const CUT_NS: i128 = 1;

impl ConstantOffset {
    /// No bracket yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more bracket, both clocks in ns: the step since the last one, ns.
    pub fn observe(&mut self, bracket: Bracket) -> Option<Interval<f64>> {
        let inner = i128::from(bracket.inner);
        let now = Interval {
            low: inner - i128::from(bracket.after) - CUT_NS,
            high: inner - i128::from(bracket.before) + CUT_NS,
        };
        let known = *self.known.get_or_insert(now);
        let common = known.overlap(now);
        if !common.is_empty() {
            self.known = Some(common);
            return None;
        }
        self.known = Some(now);
        Some(Interval { low: (now.low - known.high) as f64, high: (now.high - known.low) as f64 })
    }
}

/// Two clocks whose relative rates are given, within bounds
/// that may be wide.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slewed {
    last: Option<Bracket>,
}

impl Slewed {
    /// No bracket yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more bracket, both clocks in ns, and the rates possible since the
    /// last one: the step, ns, if they cannot explain it.
    pub fn observe(&mut self, bracket: Bracket, rates: Rates) -> Option<Interval<f64>> {
        let last = self.last.replace(bracket)?;
        let step = rates.residual(last, bracket, CUT_NS as f64);
        (!step.contains(0.0)).then_some(step)
    }
}

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

#[cfg(test)]
mod tests;
