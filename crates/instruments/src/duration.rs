//! Durations as people type them: `2s`, `500ms`, `5min`, `1h`, `2` (seconds).

use std::ops::RangeInclusive;
use std::time::Duration;

/// Seconds in each unit.
const UNITS: [(&str, f64); 10] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("", 1.0),
];

/// The longest that makes sense to ask for: a year.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// A time in one unit: ns, us, ms, s, min, h or d; seconds where none is named.
///
/// # Errors
/// What was expected; also for nothing, and for more than a year.
///
/// ```
/// assert_eq!(instruments::duration::parse("500ms"), Ok(std::time::Duration::from_millis(500)));
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let unit = &text[digits.len()..];
    let seconds = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .and_then(|(_, seconds)| Some(digits.parse::<f64>().ok()? * seconds))
        .filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_S)
        .ok_or_else(|| {
            format!(
                "expected a time such as 2s, 500ms or 5min (ns, us, ms, s, min, h, d; more than 0, \
                 at most a year), found {text:?}"
            )
        })?;
    Ok(Duration::from_secs_f64(seconds))
}

/// As [`parse`], within `range`, which the error names as `expected`.
///
/// # Errors
/// It is no time, or outside the range.
pub fn within(
    text: &str,
    range: RangeInclusive<Duration>,
    expected: &str,
) -> Result<Duration, String> {
    let time = parse(text)?;
    match range.contains(&time) {
        true => Ok(time),
        false => Err(format!("expected {expected}, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, ms) in [
            ("2", 2000),
            ("2s", 2000),
            ("0.5s", 500),
            ("500ms", 500),
            ("5min", 300_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
            ("2000us", 2),
            ("3000µs", 3),
            ("4000000ns", 4),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_quoted_back() {
        for text in ["", "s", "0", "-1s", "2 s", "2y", "367d", "1e99h", "NaN", "inf", "ü"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
