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
mod rates;

pub use learnt::{LearntRate, RateMove};
use pvclock::units::{Bracket, Interval};
pub use rates::Rates;

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

#[cfg(test)]
mod tests;
