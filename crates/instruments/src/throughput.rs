//! One run's throughput against another's, and how far to trust it.

use crate::measurements::Throughput;

/// A change, and what it may be off by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputChange {
    /// The second against the first, %: +10 is a tenth more.
    pub percent: f64,
    /// Twice the standard error that the slices of both runs show, %.
    pub bound_percent: f64,
}

/// How `second` differs from `first`; `None` where a run has done nothing, or
/// has fewer than two slices.
pub fn change(first: &Throughput, second: &Throughput) -> Option<ThroughputChange> {
    let ratio = second.per_s / first.per_s;
    let error = relative_error(first)?.hypot(relative_error(second)?);
    let change = ThroughputChange {
        percent: (ratio - 1.0) * 100.0,
        bound_percent: 2.0 * error * ratio * 100.0,
    };
    (change.percent.is_finite() && change.bound_percent.is_finite()).then_some(change)
}

/// The standard error of the mean of the slices, as a share of it.
fn relative_error(run: &Throughput) -> Option<f64> {
    let samples = run.slices.len();
    if samples < 2 {
        return None;
    }
    let mean = run.slices.iter().sum::<f64>() / samples as f64;
    let squares: f64 = run.slices.iter().map(|slice| (slice - mean).powi(2)).sum();
    let variance = squares / (samples - 1) as f64;
    Some((variance / samples as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(slices: &[f64]) -> Throughput {
        Throughput {
            load: "simulated".into(),
            unit: "events/s".into(),
            copies: 1,
            per_s: slices.iter().sum::<f64>() / slices.len() as f64,
            slices: slices.to_vec(),
            over_s: 1.0,
        }
    }

    #[test]
    fn steady_runs_have_a_sure_difference() {
        let change = change(&run(&[1000.0; 8]), &run(&[978.3; 8])).unwrap();
        assert!((change.percent + 2.17).abs() < 1e-9, "{change:?}");
        assert!(change.bound_percent < 1e-9, "{change:?}");
    }

    #[test]
    fn unsteady_runs_say_so() {
        let off = 150f64.sqrt();
        let unsteady = run(&[100.0 - off, 100.0 + off, 100.0, 100.0]);
        let change = change(&run(&[100.0; 4]), &unsteady).unwrap();
        // Variance 2 · 150 / 3 = 100, so the mean of four is off by 10/√4 = 5.
        assert!((change.bound_percent - 10.0).abs() < 1e-9, "{change:?}");
        assert!(change.percent.abs() < 1e-9, "{change:?}");
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        let some = run(&[1.0, 2.0]);
        assert_eq!(change(&run(&[0.0, 0.0]), &some), None);
        assert_eq!(change(&some, &run(&[3.0])), None);
        assert_eq!(change(&run(&[]), &some), None);
    }

    proptest! {
        /// Loads of known true throughput, each slice off by up to a tenth:
        /// evenly spread, so that the true change lies within three bounds
        /// (six standard errors) of the measured one in any run.
        #[test]
        fn the_true_change_is_near(
            first in 10.0..1e6f64,
            ratio in 0.2..5.0f64,
            noise in prop::collection::vec(-0.1..0.1f64, 64),
        ) {
            let slices = |mean: f64, noise: &[f64]| {
                run(&noise.iter().map(|noise| mean * (1.0 + noise)).collect::<Vec<_>>())
            };
            let change =
                change(&slices(first, &noise[..32]), &slices(first * ratio, &noise[32..])).unwrap();
            let truth = (ratio - 1.0) * 100.0;
            prop_assert!((change.percent - truth).abs() <= 3.0 * change.bound_percent, "{change:?}");
        }
    }
}
