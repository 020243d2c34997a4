//! Which of several intervals can be right together: Marzullo's algorithm, as RFC 5905, section
//! 11.2.1, has it.
//!
//! Each source bounds one quantity. The values that most of the sources allow are taken to be
//! right, and a source that allows none of them is a falseticker.

use core::cmp::Ordering;

use crate::units::Interval;

/// An end of an interval. A slice of them is what [`agreement`] works in, as this crate
/// allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalEnd<T> {
    at: T,
    kind: EndKind,
}

/// At equal values begins come first: intervals that touch agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndKind {
    Begin,
    End,
}

impl<T: Copy + PartialOrd> Interval<T> {
    /// Both ends; none of an empty interval, which agrees with no other.
    pub fn ends(self) -> impl Iterator<Item = IntervalEnd<T>> {
        let ends = [(self.low, EndKind::Begin), (self.high, EndKind::End)];
        let count = if self.is_empty() { 0 } else { ends.len() };
        ends.into_iter().take(count).map(|(at, kind)| IntervalEnd { at, kind })
    }

    fn compare(one: &IntervalEnd<T>, other: &IntervalEnd<T>) -> Ordering {
        // No end is other than a number.
        let by_value = one.at.partial_cmp(&other.at).unwrap_or(Ordering::Equal);
        by_value.then(one.kind.cmp(&other.kind))
    }
}

/// Where intervals agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgreedValues<T> {
    /// From the lowest to the highest value that enough of them allow. The truth is in it
    /// while all others are wrong at most.
    pub span: Interval<T>,
    /// The lowest of the values that most of them allow.
    pub at: T,
}

/// Where at least `quorum` of the intervals agree whose `ends` these are, in any order; `None`
/// where no value is allowed by the quorum, and of a quorum of 0.
///
/// With -5 to 5, -1 to 7 and 89 to 91, two agree from -1 to 5.
pub fn agreement<T: Copy + PartialOrd>(
    ends: &mut [IntervalEnd<T>],
    quorum: usize,
) -> Option<AgreedValues<T>> {
    let (mut inside, mut most) = (0, quorum.checked_sub(1)?);
    ends.sort_unstable_by(Interval::compare);
    let (mut low, mut high, mut at) = (None, None, None);
    for end in ends.iter() {
        match end.kind {
            EndKind::Begin => {
                inside += 1;
                if inside >= quorum {
                    low.get_or_insert(end.at);
                }
                // Where most overlap, one of them begins.
                if inside > most {
                    (most, at) = (inside, Some(end.at));
                }
            }
            EndKind::End => {
                if inside >= quorum {
                    high = Some(end.at);
                }
                inside -= 1;
            }
        }
    }
    Some(AgreedValues { span: Interval { low: low?, high: high? }, at: at? })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn agreed<T: Copy + PartialOrd>(ends: &[(T, T)], quorum: usize) -> Option<(T, T, T)> {
        let intervals = ends.iter().map(|&(low, high)| Interval { low, high });
        let mut ends: Vec<_> = intervals.flat_map(Interval::ends).collect();
        let found = agreement(&mut ends, quorum)?;
        Some((found.span.low, found.span.high, found.at))
    }

    #[test]
    fn the_agreed_span_is_where_enough_intervals_overlap() {
        let all = [(-5, 5), (-1, 7), (89, 91)];
        assert_eq!(agreed(&all, 2), Some((-1, 5, -1)));
        assert_eq!(agreed(&all, 3), None);
        // Any of the three may be the only right one.
        assert_eq!(agreed(&all, 1), Some((-5, 91, -1)));
        assert_eq!(agreed(&all, 0), None);
        assert_eq!(agreed::<i128>(&[], 1), None);
        // Intervals that touch agree.
        assert_eq!(agreed(&[(-5, 5), (5, 15)], 2), Some((5, 5, 5)));
    }

    #[test]
    fn what_bounds_nothing_agrees_with_none() {
        assert_eq!(agreed(&[(f64::NAN, f64::NAN), (0.0, f64::NAN)], 1), None);
        assert_eq!(agreed(&[(3.0, 2.0), (1.0, 4.0)], 2), None);
        let halves = [(f64::NEG_INFINITY, 0.0), (-0.0, f64::INFINITY)];
        assert_eq!(agreed(&halves, 2), Some((0.0, 0.0, 0.0)));
    }

    proptest! {
        /// Judged by counting, at every value, who allows it.
        #[test]
        fn no_value_is_missed_and_none_is_invented(
            ends in prop::collection::vec((-9_i32..10, -2_i32..9), 0..9),
            quorum in 1_usize..7,
        ) {
            let ends: Vec<_> = ends.iter().map(|(low, width)| (*low, low + width)).collect();
            let votes = |value: i32| ends.iter().filter(|e| value >= e.0 && value <= e.1).count();
            let enough: Vec<i32> = (-20..30).filter(|value| votes(*value) >= quorum).collect();
            let most = (-20..30).map(votes).max().unwrap();
            let expected = enough.first().map(|first| {
                let at = enough.iter().find(|value| votes(**value) == most).unwrap();
                (*first, *enough.last().unwrap(), *at)
            });
            prop_assert_eq!(agreed(&ends, quorum), expected);
            let in_f64: Vec<_> = ends.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let expected = expected.map(|(a, b, c)| (f64::from(a), f64::from(b), f64::from(c)));
            prop_assert_eq!(agreed(&in_f64, quorum), expected);
        }
    }
}
