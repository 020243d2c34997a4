//! The slope that half of all pairs of points lie below.
//!
//! Theil (1950) and Sen, "Estimates of the regression coefficient based on
//! Kendall's tau", JASA 63 (1968) 1379: the median of the slopes of all pairs.
//! Up to 29 % of the points may be anything at all without moving it far,
//! where a single one ruins least squares; nothing is tuned. Sen's confidence
//! interval is made of the same slopes: those whose ranks a tau within its
//! limits allows.
//!
//! Points of different stretches, between which the clock stepped, make no
//! pairs; their slopes and the variances of their taus add up.

/// A point: where, which value.
pub type Point = (f64, f64);

/// Standard deviations of 95 % of a normal distribution.
const NORMAL_95: f64 = 1.959_964;

/// A slope, and where the true one is believed to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The estimate.
    pub estimate: f64,
    /// The interval; none where so few points allow any slope.
    pub interval: Option<(f64, f64)>,
}

/// The slope common to all stretches; none without two points in one of them
/// at different places.
pub fn slope(stretches: &[Vec<Point>]) -> Option<Slope> {
    slope_within(stretches, NORMAL_95)
}

/// The same with an interval of `deviations` standard deviations of tau.
fn slope_within(stretches: &[Vec<Point>], deviations: f64) -> Option<Slope> {
    let mut slopes: Vec<f64> = stretches.iter().flat_map(|points| pair_slopes(points)).collect();
    slopes.sort_by(f64::total_cmp);
    let estimate = median(&slopes)?;
    // Var(tau's numerator), without ties: n(n-1)(2n+5)/18.
    let variance: f64 = stretches
        .iter()
        .map(|points| points.len() as f64)
        .map(|n| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0)
        .sum();
    let pairs = slopes.len() as f64;
    let below = ((pairs - deviations * variance.sqrt()) / 2.0).floor();
    // `below` counts slopes outside at either end.
    let interval = (below >= 1.0).then(|| {
        let index = below as usize - 1;
        (slopes[index], slopes[slopes.len() - 1 - index])
    });
    Some(Slope { estimate, interval })
}

fn pair_slopes(points: &[Point]) -> impl Iterator<Item = f64> + '_ {
    points.iter().enumerate().flat_map(move |(index, from)| {
        points[index + 1..]
            .iter()
            .filter(|to| to.0 != from.0)
            .map(move |to| (to.1 - from.1) / (to.0 - from.0))
    })
}

/// The middle of sorted values.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + upper) / 2.0 } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sen's own example (1968, section 5): slope 4, between 3.71 and 4.38
    /// with 93 % confidence.
    #[test]
    fn the_published_example_comes_out() {
        let at = [1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0];
        let value = [9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0];
        let points: Vec<Point> = at.into_iter().zip(value).collect();
        let slope = slope_within(&[points], 1.811_911).unwrap();
        assert_eq!(slope.estimate, 4.0);
        let (low, high) = slope.interval.unwrap();
        assert!((low - 3.71).abs() < 0.005 && (high - 4.38).abs() < 0.005, "{low} {high}");
    }

    #[test]
    fn outliers_do_not_move_it() {
        let mut points: Vec<Point> =
            (0..20).map(|i| (f64::from(i), 3.0 * f64::from(i) + 7.0)).collect();
        for index in [2, 9, 15, 18] {
            points[index].1 += 1e9;
        }
        let slope = slope(&[points]).unwrap();
        assert_eq!(slope.estimate, 3.0);
    }

    #[test]
    fn stretches_may_differ_by_any_step() {
        let line = |from: i32, shift: f64| -> Vec<Point> {
            (from..from + 6).map(|i| (f64::from(i), f64::from(i) * -2.0 + shift)).collect()
        };
        let slope = slope(&[line(0, 0.0), line(6, 1e12)]).unwrap();
        assert_eq!(slope.estimate, -2.0);
        assert_eq!(slope.interval, Some((-2.0, -2.0)));
    }

    #[test]
    fn too_little_is_no_slope_and_little_is_no_interval() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[vec![(1.0, 1.0)]]), None);
        assert_eq!(slope(&[vec![(1.0, 1.0), (1.0, 2.0)]]), None);
        let two = slope(&[vec![(0.0, 0.0), (1.0, 2.0)]]).unwrap();
        assert_eq!((two.estimate, two.interval), (2.0, None));
    }
}
