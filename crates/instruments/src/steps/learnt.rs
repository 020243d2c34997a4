//! Two clocks of unknown but steady rate.
//!
//! The rate is learnt as it goes, over some seconds. An interval that does
//! not fit it has two explanations: a step, after which the rate is what it
//! was, or a new rate. The intervals after it distinguish them, so each
//! finding is reported one or two brackets late, with its own time.

use pvclock::units::{Bracket, Interval};

use super::Rates;

/// How far the rate may be off what was learnt, relative: two crystals warm
/// up at different paces, and a host steers the clock behind an emulated
/// timer by some parts in 10^7 each minute.
const WANDER: f64 = 1e-6;

/// Length over which the rate is learnt, in units of the inner clock (ns):
/// with reads of 100 ns it is then known to some 10^-8, hundred times better
/// than the wander allowed.
const WINDOW: u64 = 5_000_000_000;

/// Consecutive intervals that do not fit, before a new rate is assumed.
const SUSPECTS: usize = 2;

/// Two clocks of steady rate.
#[derive(Debug, Clone, PartialEq)]
pub struct LearntRate {
    inner_step: f64,
    last: Option<Bracket>,
    /// The rate, and the inner reading at which it was learnt.
    rates: Option<(Rates, u64)>,
    stretch: Option<Stretch>,
    suspects: Vec<Suspect>,
}

/// What the rate is learnt from.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    /// Rates are taken from here on.
    base: Bracket,
    /// Inner reading at which the search for the next base began.
    since: u64,
    /// The tightest bracket since.
    next_base: Bracket,
}

impl Stretch {
    fn new(base: Bracket) -> Self {
        Self { base, since: base.inner, next_base: base }
    }
}

/// An interval that did not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Suspect {
    at_ns: u64,
    first: Bracket,
    last: Bracket,
    step: Interval<f64>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateMove {
    /// The inner clock stepped, in its units.
    Step {
        /// As passed with the first bracket after it.
        at_ns: u64,
        /// By how much.
        step: Interval<f64>,
    },
    /// The inner clock runs at another rate since.
    Rate {
        /// As passed with the first bracket that showed it.
        at_ns: u64,
        /// Rate before: inner units to one outer.
        before: f64,
        /// Rate since.
        after: f64,
    },
}

impl LearntRate {
    /// No bracket yet, of an inner clock that moves by `inner_step`.
    pub fn new(inner_step: f64) -> Self {
        Self { inner_step, last: None, rates: None, stretch: None, suspects: Vec::new() }
    }

    /// The same, of a rate that is known before: then a step in the first
    /// interval is found too, and does not pass for the rate.
    pub fn with_rate(inner_step: f64, rate: f64) -> Self {
        let rates = Rates::new(rate, rate).widened(WANDER);
        Self { rates: Some((rates, 0)), ..Self::new(inner_step) }
    }

    /// The rate, once two brackets were seen or it was known before.
    pub fn rates(&self) -> Option<Rates> {
        self.rates.map(|(rates, _)| rates)
    }

    /// One more bracket, taken at `at_ns` by a clock of the caller's.
    pub fn observe(&mut self, bracket: Bracket, at_ns: u64) -> Vec<RateMove> {
        let Some(last) = self.last.replace(bracket) else {
            self.stretch = Some(Stretch::new(bracket));
            if let Some((_, at)) = &mut self.rates {
                *at = bracket.inner;
            }
            return Vec::new();
        };
        let Some(rates) = self.rates() else {
            self.learn(bracket);
            return Vec::new();
        };
        let step = rates.widened(WANDER).residual(last, bracket, self.inner_step);
        if step.contains(0.0) {
            let steps = self.take_steps();
            if !steps.is_empty() {
                self.stretch = Some(Stretch::new(last));
            }
            self.learn(bracket);
            return steps;
        }
        let suspect = Suspect { at_ns, first: last, last: bracket, step };
        if let Some(change) = self.new_rate(suspect) {
            return vec![change];
        }
        self.suspects.push(suspect);
        if self.suspects.len() > SUSPECTS {
            let eldest = self.suspects.remove(0);
            return vec![eldest.step()];
        }
        Vec::new()
    }

    /// At the end: what no later bracket will explain any more.
    pub fn finish(&mut self) -> Vec<RateMove> {
        self.take_steps()
    }

    fn take_steps(&mut self) -> Vec<RateMove> {
        self.suspects.drain(..).map(|suspect| suspect.step()).collect()
    }

    /// Two intervals off the old rate to the same side may be the end of it;
    /// a third that continues like the second shows it.
    fn new_rate(&mut self, third: Suspect) -> Option<RateMove> {
        let [first, second] = self.suspects[..] else { return None };
        let one_side = (first.step.low > 0.0) == (second.step.low > 0.0)
            && (second.step.low > 0.0) == (third.step.low > 0.0);
        let rates = Rates::between(second.first, second.last, self.inner_step)?;
        let goes_on =
            rates.widened(WANDER).residual(third.first, third.last, self.inner_step).contains(0.0);
        if !one_side || !goes_on {
            return None;
        }
        let before = self.rates()?.middle();
        let since = Rates::between(second.first, third.last, self.inner_step)?;
        self.rates = Some((since, third.last.inner));
        self.suspects.clear();
        self.stretch = Some(Stretch::new(second.first));
        Some(RateMove::Rate { at_ns: first.at_ns, before, after: since.middle() })
    }

    /// Takes the rate since the base if that is known better than the one in
    /// use, or the one in use is of a time too long ago; moves the base on.
    fn learn(&mut self, bracket: Bracket) {
        let Some(stretch) = &mut self.stretch else { return };
        let now = bracket.inner;
        if let Some(learnt) = Rates::between(stretch.base, bracket, self.inner_step)
            && self.rates.is_none_or(|(rates, at)| {
                now.saturating_sub(at) >= WINDOW
                    || learnt.relative_bound() <= rates.relative_bound()
            })
        {
            self.rates = Some((learnt, now));
        }
        if bracket.width() < stretch.next_base.width() {
            stretch.next_base = bracket;
        }
        if now.saturating_sub(stretch.since) >= WINDOW {
            *stretch = Stretch { base: stretch.next_base, since: now, next_base: bracket };
        }
    }
}

impl Suspect {
    fn step(self) -> RateMove {
        RateMove::Step { at_ns: self.at_ns, step: self.step }
    }
}
