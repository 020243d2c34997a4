//! What a comparison over a while came to.

use schemars::JsonSchema;
use serde::Serialize;

use super::allan::AllanPoint;
use super::filter::Bounded;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Five minutes, over which people compare a guest's clock.
const FIVE_MINUTES_S: f64 = 300.0;

/// One clock against one reference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    /// Comparisons made.
    pub readings: usize,
    /// Those that the estimate rests on: the quickest there and back of each
    /// block. All others were dropped, as delayed or as outliers.
    pub kept: usize,
    /// Those that contradict the comparisons before and after them: wrong
    /// answers, which are dropped.
    pub outliers: usize,
    /// Time from the first to the last, s.
    pub span_s: f64,
    /// The least delay (distance of the bounds), ns.
    pub least_delay_ns: f64,
    /// The median delay, ns.
    pub median_delay_ns: f64,
    /// The frequency error; none where all readings are of one time.
    pub frequency: Option<Frequency>,
    /// Clock − reference at the end.
    pub offset: DriftOffset,
    /// Steps found, and cut out of the frequency.
    pub steps: Vec<DriftStep>,
    /// Changes of frequency; the figure above is of the time since the last
    /// where that was long enough.
    pub rate_changes: Vec<RateChange>,
    /// Overlapping Allan deviation, over the longest time without a step;
    /// readings far more delayed than most are left out.
    pub allan: Vec<AllanPoint>,
}

/// The delay beyond which a reading would hide what the others show, where
/// readings are used one by one: three times as far from the least as the
/// median is.
pub(super) fn late_ns(least_ns: f64, median_ns: f64) -> f64 {
    median_ns + 2.0 * (median_ns - least_ns)
}

impl Drift {
    /// Whether a reading was delayed so much that a picture is better
    /// without it.
    pub fn is_late(&self, reading: &Bounded) -> bool {
        reading.width_ns() > late_ns(self.least_delay_ns, self.median_delay_ns)
    }
}

/// A frequency error: positive is fast.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Frequency {
    /// The estimate, ppm.
    pub ppm: f64,
    /// Its 95 % confidence interval, ppm; of fewer than five blocks, between
    /// what the bounds of the first and the last allow at all.
    pub interval_ppm: Option<(f64, f64)>,
    /// Gained in a day at that rate, s.
    pub per_day_s: f64,
    /// Gained in 300 s at that rate, s.
    pub in_300_s: f64,
}

impl Frequency {
    /// Of a slope in ns/s, which is a thousandth of a ppm.
    pub(super) fn of_slope(slope: super::theil_sen::Slope) -> Self {
        let ppm = slope.estimate / 1e3;
        Self {
            ppm,
            interval_ppm: slope.interval.map(|(low, high)| (low / 1e3, high / 1e3)),
            per_day_s: ppm / 1e6 * DAY_S,
            in_300_s: ppm / 1e6 * FIVE_MINUTES_S,
        }
    }
}

/// How far the clock was ahead at the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DriftOffset {
    /// Clock − reference, ns; both as they count, so a clock that counts from
    /// boot is behind one that counts from 1970 by all that time.
    pub ns: f64,
    /// The truth is within ± this, however the delay divides into its ways.
    pub bound_ns: f64,
    /// How much of it came since the start, ns, steps and all.
    pub moved_ns: f64,
}

/// The clock moved against the reference at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DriftStep {
    /// When the first reading after it was, s since the start.
    pub at_s: f64,
    /// By how much, ns: positive is the clock forward, or the reference back.
    pub ns: f64,
    /// The truth is within ± this.
    pub bound_ns: f64,
}

/// The clock's frequency changed against the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RateChange {
    /// When, s since the start.
    pub at_s: f64,
    /// Before, ppm.
    pub before_ppm: f64,
    /// Since, ppm.
    pub after_ppm: f64,
}
