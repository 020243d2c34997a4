//! Whether a clock keeps within its limits.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Drift, Frequency};

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
mod tests {
    use super::*;

    #[test]
    fn an_interval_makes_a_verdict_sure_or_not() {
        let judge = |estimate, low, high| BudgetVerdict::judge(estimate, (low, high), 50.0);
        assert_eq!(judge(10.0, 5.0, 15.0), BudgetVerdict::Within);
        assert_eq!(judge(-49.0, -51.0, -47.0), BudgetVerdict::WithinUnsure);
        assert_eq!(judge(51.0, 49.0, 53.0), BudgetVerdict::OutsideUnsure);
        assert_eq!(judge(-60.0, -62.0, -58.0), BudgetVerdict::Outside);
        assert_eq!(judge(60.0, -62.0, 70.0), BudgetVerdict::OutsideUnsure);
        assert_eq!(judge(f64::NAN, f64::NAN, f64::NAN), BudgetVerdict::OutsideUnsure);
    }
}
