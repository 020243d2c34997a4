//! The overlapping Allan deviation: how much a clock's frequency changes from
//! one time of length tau to the next.
//!
//! Riley, "Handbook of Frequency Stability Analysis", NIST Special Publication
//! 1065 (2008), section 5.2.4, from phase (offsets in time):
//!
//! ```text
//! sigma²(tau) = sum (x[i+2m] - 2 x[i+m] + x[i])² / (2 tau² (N - 2m)), tau = m tau0
//! ```
//!
//! A constant frequency error does not show in it. What the measurement adds
//! by itself does: at short tau the figure is the network's or the reader's.

use schemars::JsonSchema;
use serde::Serialize;

use super::theil_sen::{Point, median};

/// The deviation over one tau.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AllanPoint {
    /// tau, s.
    pub tau_s: f64,
    /// The deviation: of fractional frequency, so that 1e-6 is 1 ppm.
    pub deviation: f64,
    /// Terms of the sum; few of them make a rough figure.
    pub terms: usize,
}

/// The deviation of `phase_s` taken each `tau0_s`, over `factor` × `tau0_s`.
pub fn overlapping(phase_s: &[f64], tau0_s: f64, factor: usize) -> Option<AllanPoint> {
    let terms = phase_s.len().checked_sub(2 * factor).filter(|terms| *terms > 0 && factor > 0)?;
    let tau_s = factor as f64 * tau0_s;
    let sum: f64 = (0..terms)
        .map(|i| phase_s[i + 2 * factor] - 2.0 * phase_s[i + factor] + phase_s[i])
        .map(|second| second * second)
        .sum();
    let deviation = (sum / (2.0 * tau_s * tau_s * terms as f64)).sqrt();
    Some(AllanPoint { tau_s, deviation, terms })
}

/// The deviation over tau from the spacing of `points` (s, s) up to a third
/// of their span, in octaves. Points need not be even: they are taken as if
/// joined by lines, at the median of their distances.
pub fn over_octaves(points: &[Point]) -> Vec<AllanPoint> {
    let Some((phase_s, tau0_s)) = evenly(points) else { return Vec::new() };
    (0..usize::BITS)
        .map(|power| 1usize << power)
        .take_while(|factor| 3 * factor < phase_s.len())
        .filter_map(|factor| overlapping(&phase_s, tau0_s, factor))
        .collect()
}

/// Phase on even ground, and the step of it.
fn evenly(points: &[Point]) -> Option<(Vec<f64>, f64)> {
    let mut gaps: Vec<f64> = points.windows(2).map(|two| two[1].0 - two[0].0).collect();
    gaps.sort_by(f64::total_cmp);
    let tau0_s = median(&gaps).filter(|gap| *gap > 0.0)?;
    let first = points.first()?.0;
    let steps = ((points.last()?.0 - first) / tau0_s).floor();
    // Far more steps than points would be made up of lines alone.
    if !(0.0..=4.0 * points.len() as f64).contains(&steps) {
        return None;
    }
    let mut phase_s = Vec::new();
    let mut after = 1;
    for step in 0..=steps as usize {
        let at = first + step as f64 * tau0_s;
        while after + 1 < points.len() && points[after].0 < at {
            after += 1;
        }
        let (from, to) = (points[after - 1], points[after]);
        let share = if to.0 > from.0 { (at - from.0) / (to.0 - from.0) } else { 0.0 };
        phase_s.push(from.1 + share * (to.1 - from.1));
    }
    Some((phase_s, tau0_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP 1065, section 12.4: 1000 frequency values of a prescribed generator,
    /// here summed up to 1001 phases.
    fn published_phase() -> Vec<f64> {
        let mut number = 1_234_567_890u64;
        let mut phase = vec![0.0];
        let mut sum = 0.0;
        for _ in 0..1000 {
            sum += number as f64 / 2_147_483_647.0;
            phase.push(sum);
            number = 16_807 * number % 2_147_483_647;
        }
        phase
    }

    /// SP 1065, table 31: the overlapping Allan deviation of that data set.
    #[test]
    fn the_published_example_comes_out() {
        let phase = published_phase();
        for (factor, published) in [(1, 2.922_319e-1), (10, 9.159_953e-2), (100, 3.241_343e-2)] {
            let point = overlapping(&phase, 1.0, factor).unwrap();
            let relative = (point.deviation / published - 1.0).abs();
            assert!(relative < 5e-7, "m = {factor}: {} for {published}", point.deviation);
        }
    }

    /// SP 1065, section 12.4, table 30: nine frequencies (NBS Monograph 140,
    /// annex 8.E), and their overlapping Allan deviation.
    #[test]
    fn the_small_published_example_comes_out() {
        let frequencies = [892.0, 809.0, 823.0, 798.0, 671.0, 644.0, 883.0, 903.0, 677.0];
        let mut phase = vec![0.0];
        phase.extend(frequencies.iter().scan(0.0, |sum, frequency| {
            *sum += frequency;
            Some(*sum)
        }));
        for (factor, published) in [(1, 91.22945), (2, 85.95287)] {
            let point = overlapping(&phase, 1.0, factor).unwrap();
            assert!((point.deviation - published).abs() < 5e-6, "{point:?}");
        }
    }

    #[test]
    fn a_constant_frequency_is_perfectly_stable() {
        let points: Vec<Point> = (0..100).map(|i| (f64::from(i), f64::from(i) * 5e-5)).collect();
        let octaves = over_octaves(&points);
        assert_eq!(octaves.len(), 6);
        assert_eq!(octaves.last().map(|point| point.tau_s), Some(32.0));
        assert!(octaves.iter().all(|point| point.deviation < 1e-15), "{octaves:?}");
    }

    #[test]
    fn lost_points_are_bridged_and_too_few_are_nothing() {
        let points: Vec<Point> =
            (0..100).filter(|i| i % 7 != 3).map(|i| (f64::from(i), f64::from(i) * 2.0)).collect();
        let octaves = over_octaves(&points);
        assert!(octaves.iter().all(|point| point.deviation < 1e-12), "{octaves:?}");
        assert!(over_octaves(&points[..2]).is_empty());
        assert!(over_octaves(&[]).is_empty());
        assert!(over_octaves(&[(1.0, 0.0), (1.0, 1.0), (1.0, 2.0)]).is_empty());
        assert!(over_octaves(&[(0.0, 0.0), (1.0, 1.0), (2.0, 1.0), (1e18, 2.0)]).is_empty());
    }
}
