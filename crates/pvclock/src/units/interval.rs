//! Where a quantity is, for certain.

use core::ops::{Neg, Sub};

/// A quantity is at least `low` and at most `high`, in the unit of `T`.
///
/// Where `low` is above `high`, or either is no number, no value is possible: what the bounds
/// were made of contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval<T> {
    /// At least this.
    pub low: T,
    /// At most this.
    pub high: T,
}

impl<T: Copy + PartialOrd> Interval<T> {
    /// Whether no value is possible.
    pub fn is_empty(&self) -> bool {
        !self.contains(self.low)
    }

    /// Whether the quantity may have this value.
    pub fn contains(&self, value: T) -> bool {
        self.low <= value && value <= self.high
    }

    /// The values that both allow: 2 to 3 of 0 to 3 and 2 to 9. Empty where they allow none.
    #[must_use]
    pub fn overlap(self, other: Self) -> Self {
        Self {
            low: if other.low > self.low { other.low } else { self.low },
            high: if other.high < self.high { other.high } else { self.high },
        }
    }
}

impl Interval<i128> {
    /// A time of `at_ns` ± `error_ns`.
    pub fn around(at_ns: u64, error_ns: u64) -> Self {
        let (at, error) = (i128::from(at_ns), i128::from(error_ns));
        Self { low: at - error, high: at + error }
    }
}

impl Interval<f64> {
    /// `value` ± `bound`.
    pub fn plus_minus(value: f64, bound: f64) -> Self {
        Self { low: value - bound, high: value + bound }
    }

    /// With room for `by` more on either side.
    #[must_use]
    pub fn widened(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by }
    }

    /// The estimate.
    pub fn middle(self) -> f64 {
        self.low / 2.0 + self.high / 2.0
    }

    /// The truth is within ± this of the estimate.
    pub fn bound(self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }
}

/// The quantity with its sign turned: 2 to 3 becomes -3 to -2.
impl Neg for Interval<f64> {
    type Output = Self;

    fn neg(self) -> Self {
        Self { low: -self.high, high: -self.low }
    }
}

/// What the difference of two quantities may be: 5 to 6 less 1 to 3 is 2 to 5.
impl Sub for Interval<f64> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_intervals_overlap_where_both_allow_a_value() {
        let interval = |low, high| Interval { low, high };
        assert_eq!(interval(0, 3).overlap(interval(2, 9)), interval(2, 3));
        assert_eq!(interval(2, 9).overlap(interval(0, 3)), interval(2, 3));
        assert!(!interval(0, 3).overlap(interval(3, 9)).is_empty());
        assert!(interval(0, 3).overlap(interval(4, 9)).is_empty());
        assert!(Interval { low: f64::NAN, high: 1.0 }.is_empty());
        assert_eq!(Interval::around(5, 7), interval(-2, 12));
        let rate = Interval { low: -1.0, high: 4.0 };
        assert_eq!((rate.middle(), rate.bound()), (1.5, 2.5));
        assert_eq!(Interval::plus_minus(1.5, 2.5), rate);
        assert_eq!(rate.widened(1.0), Interval { low: -2.0, high: 5.0 });
        assert_eq!(-rate, Interval { low: -4.0, high: 1.0 });
        assert_eq!(rate - Interval { low: 1.0, high: 3.0 }, Interval { low: -4.0, high: 3.0 });
    }
}
