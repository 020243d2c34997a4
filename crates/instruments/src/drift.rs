//! A clock's frequency and offset against a reference, over a while.
//!
//! Two clocks are never read at one instant: each [`DriftReading`] only bounds
//! their difference, within a network's round trip or the few nanoseconds
//! between two reads. The stages:
//!
//! 1. [`series`]: readings become bounds on clock − reference. One that
//!    contradicts those before it and after it is an outlier and dropped;
//!    where all that follow contradict, a step is found and cut out.
//! 2. [`filter`]: a block keeps its quickest request and its quickest reply; all
//!    others waited in a queue and are dropped.
//! 3. [`theil_sen`]: the blocks' slope is the frequency error, a median of
//!    slopes with Sen's confidence interval.
//! 4. [`allan`]: how stable that is over which time.
//! 5. [`Budget`]: whether that is good enough.
//!
//! A positive frequency error or offset is a clock that is fast or ahead, as
//! in chrony's reports.

pub mod allan;
pub mod filter;
mod lasting;
pub mod reading;
pub mod result;
pub mod series;
pub mod theil_sen;

use schemars::JsonSchema;
use serde::Serialize;

pub use reading::{DriftReading, Nesting, Span};
pub use result::{Drift, DriftOffset, DriftStep, Frequency, RateChange};
pub use series::{Refused, Series};

/// The limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Budget {
    /// Largest frequency error, ppm, either way.
    pub max_ppm: Option<f64>,
    /// Largest offset, ns, either way.
    pub max_offset_ns: Option<f64>,
}

/// A figure compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetVerdict {
    /// Within it, and all of its interval too.
    Within,
    /// Within it, but its interval reaches beyond: a longer run would decide.
    WithinUnsure,
    /// Beyond it, but its interval reaches within.
    OutsideUnsure,
    /// Beyond it, and all of its interval too.
    Outside,
    /// The figure could not be had.
    NotMeasured,
}

impl BudgetVerdict {
    /// Whether the estimate itself is beyond.
    pub fn is_outside(self) -> bool {
        matches!(self, Self::Outside | Self::OutsideUnsure)
    }

    fn judge(estimate: f64, (low, high): (f64, f64), limit: f64) -> Self {
        let within = |value: f64| value.abs() <= limit;
        let surely_outside = low > limit || high < -limit;
        match within(estimate) {
            true if within(low) && within(high) => Self::Within,
            true => Self::WithinUnsure,
            false if surely_outside => Self::Outside,
            false => Self::OutsideUnsure,
        }
    }
}

impl Budget {
    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.max_ppm.is_none() && self.max_offset_ns.is_none()
    }

    /// The frequency's verdict; none without a limit.
    pub fn frequency(&self, drift: &Drift) -> Option<BudgetVerdict> {
        let limit = self.max_ppm?;
        Some(match drift.frequency {
            // Without an interval the estimate's error is unknown.
            Some(Frequency { ppm, interval_ppm, .. }) => {
                let anything = (f64::NEG_INFINITY, f64::INFINITY);
                BudgetVerdict::judge(ppm, interval_ppm.unwrap_or(anything), limit)
            }
            None => BudgetVerdict::NotMeasured,
        })
    }

    /// The offset's verdict; none without a limit.
    pub fn offset(&self, drift: &Drift) -> Option<BudgetVerdict> {
        let limit = self.max_offset_ns?;
        let (ns, bound) = (drift.offset.ns, drift.offset.bound_ns);
        Some(BudgetVerdict::judge(ns, (ns - bound, ns + bound), limit))
    }
}

#[cfg(test)]
mod tests;
