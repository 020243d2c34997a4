//! The value in the middle.

/// Halfway between the two in the middle, of an even number; 0 of none.
pub(crate) fn median(values: Vec<i64>) -> i64 {
    let (lower, upper) = medians(values);
    lower.midpoint(upper)
}

/// The two in the middle, which are one of an odd number.
pub(crate) fn medians(mut values: Vec<i64>) -> (i64, i64) {
    if values.is_empty() {
        return (0, 0);
    }
    let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
    let upper = *values.select_nth_unstable(upper).1;
    (*values.select_nth_unstable(lower).1, upper)
}
