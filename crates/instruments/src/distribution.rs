//! Many samples of one figure, kept as a histogram.
//!
//! Memory does not grow with the number of samples: hdrhistogram keeps three
//! significant digits, so a quantile is within 0.1 % (or a thousandth of the
//! unit, whichever is more) of the sample that has that rank. Minimum and
//! maximum are exact.

use hdrhistogram::Histogram;

use crate::measurements::Spread;

/// Recorded in thousandths of the unit: costs come as fractions of a cycle.
const THOUSANDTHS: f64 = 1000.0;

/// Significant decimal digits kept.
const DIGITS: u8 = 3;

/// Bins of [`Distribution::bins`] to each doubling.
pub const BINS_PER_OCTAVE: f64 = 32.0;

/// Samples of one figure.
#[derive(Debug, Clone)]
pub struct Distribution {
    histogram: Histogram<u32>,
    min: f64,
    max: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// No sample yet.
    pub fn new() -> Self {
        let histogram = Histogram::new(DIGITS).expect("3 digits are within hdrhistogram's 0 to 5");
        Self { histogram, min: f64::INFINITY, max: 0.0 }
    }

    /// Adds a sample. Costs are not negative: what an overhead subtracted in
    /// full made so counts as 0.
    pub fn record(&mut self, value: f64) {
        let value = value.max(0.0);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        // `as` saturates.
        let thousandths = (value * THOUSANDTHS).round() as u64;
        self.histogram.record(thousandths).expect("a histogram that resizes itself holds any u64");
    }

    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that a share `quantile` (0 to 1) of the samples do not exceed.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        if self.histogram.is_empty() {
            return None;
        }
        let bin = self.histogram.value_at_quantile(quantile);
        Some((self.histogram.median_equivalent(bin) as f64 / THOUSANDTHS).clamp(self.min, self.max))
    }

    /// The mean, to the three digits kept; 0 without samples.
    pub fn mean(&self) -> f64 {
        self.histogram.mean() / THOUSANDTHS
    }

    /// The landmarks; `None` without samples.
    pub fn spread(&self) -> Option<Spread> {
        Some(Spread {
            min: self.min,
            median: self.quantile(0.5)?,
            p99: self.quantile(0.99)?,
            max: self.max,
        })
    }

    /// Samples beyond the third quartile + 3 quartile ranges: Tukey's 'far
    /// out' values, which a cost measured on a shared machine always has.
    pub fn outliers(&self) -> u64 {
        let (Some(first), Some(third)) = (self.quantile(0.25), self.quantile(0.75)) else {
            return 0;
        };
        let fence = third + 3.0 * (third - first);
        let beyond = |value: u64| value as f64 / THOUSANDTHS > fence;
        self.histogram
            .iter_recorded()
            .filter(|step| beyond(self.histogram.lowest_equivalent(step.value_iterated_to())))
            .map(|step| step.count_since_last_iteration())
            .sum()
    }

    /// The histogram in bins of equal ratio, 32 to the doubling: (lower edge,
    /// samples), scaled by `scale`, empty bins left out. A bin reaches up to
    /// its lower edge × 2^(1/32), that is 2.2 %.
    pub fn bins(&self, scale: f64) -> Vec<(f64, u64)> {
        let mut bins: Vec<(f64, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let middle = self.histogram.median_equivalent(step.value_iterated_to());
            let value = middle as f64 / THOUSANDTHS * scale;
            let edge = lower_edge(value);
            match bins.last_mut() {
                Some((last, count)) if *last == edge => *count += step.count_since_last_iteration(),
                _ => bins.push((edge, step.count_since_last_iteration())),
            }
        }
        bins
    }
}

/// The lower edge of the bin that holds `value`; 0 for what is under a
/// thousandth.
fn lower_edge(value: f64) -> f64 {
    if value < 1.0 / THOUSANDTHS {
        return 0.0;
    }
    ((value.log2() * BINS_PER_OCTAVE).floor() / BINS_PER_OCTAVE).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f64]) -> Distribution {
        let mut distribution = Distribution::new();
        values.iter().for_each(|&value| distribution.record(value));
        distribution
    }

    #[test]
    fn nothing_measured_is_not_zero() {
        assert_eq!(Distribution::new().spread(), None);
        assert_eq!(Distribution::new().outliers(), 0);
        assert!(Distribution::new().bins(1.0).is_empty());
    }

    #[test]
    fn outliers_are_beyond_the_far_fence() {
        // Quartiles 20 and 22: the fence stands at 28.
        let mut values: Vec<f64> = [20.0, 20.0, 21.0, 22.0, 22.0].repeat(200);
        values.extend([27.5, 27.9, 28.5, 1000.0]);
        assert_eq!(of(&values).outliers(), 2);
    }

    #[test]
    fn negative_samples_count_as_zero() {
        let spread = of(&[-3.0, -2.0]).spread().unwrap();
        assert_eq!((spread.min, spread.max), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth(
            mut values in prop::collection::vec(0.0..1e9f64, 1..400),
            quantile in 0.0..=1.0f64,
        ) {
            let estimate = of(&values).quantile(quantile).unwrap();
            values.sort_by(f64::total_cmp);
            let rank = (quantile * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank - 1];
            prop_assert!((estimate - exact).abs() <= exact * 0.001 + 0.001, "{estimate} {exact}");
        }

        #[test]
        fn bins_hold_every_sample_once(values in prop::collection::vec(0.0..1e6f64, 0..400)) {
            let distribution = of(&values);
            let bins = distribution.bins(0.4);
            prop_assert_eq!(bins.iter().map(|bin| bin.1).sum::<u64>(), values.len() as u64);
            prop_assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
