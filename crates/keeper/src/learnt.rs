//! What was learnt of an oscillator, as a text that outlives the daemon.
//!
//! ```text
//! parachron-frequency 1
//! clocksource tsc
//! ppb -12345.678
//! uncertainty-ppb 104.2
//! ```

use std::fmt;
use std::str::FromStr;

use crate::frequency::LearntFrequency;

/// A learnt frequency, and of which oscillator.
#[derive(Debug, Clone, PartialEq)]
pub struct Learnt {
    /// The kernel's clock source: another is another oscillator.
    pub clocksource: String,
    /// What was learnt.
    pub frequency: LearntFrequency,
}

/// Why a text holds no learnt frequency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearntError(&'static str);

/// The first line: format and version.
const HEADER: &str = "parachron-frequency 1";

/// The kernel's limit, and more than is ever learnt, ppb.
const LARGEST_PPB: f64 = 500_000.0;

/// The longest name that the kernel gives a clock source
/// (`CS_NAME_LEN`, kernel/time/clocksource.c).
const NAME_BYTES: usize = 32;

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LearntFrequency { ppb, uncertainty_ppb } = self.frequency;
        writeln!(f, "{HEADER}\nclocksource {}", self.clocksource)?;
        writeln!(f, "ppb {ppb:.3}\nuncertainty-ppb {uncertainty_ppb:.3}")
    }
}

impl FromStr for Learnt {
    type Err = LearntError;

    /// The four lines, in this order, and nothing else.
    fn from_str(text: &str) -> Result<Self, LearntError> {
        let mut lines = text.lines();
        // Cut within its last number it would claim a frequency that is known better.
        if !text.ends_with('\n') {
            return Err(LearntError("the last line has no end"));
        }
        if lines.next() != Some(HEADER) {
            return Err(LearntError("the first line is not `parachron-frequency 1`"));
        }
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let clocksource = value("clocksource").filter(|name| is_name(name));
        let ppb = value("ppb").and_then(|text| number(text, -LARGEST_PPB));
        let uncertainty_ppb = value("uncertainty-ppb").and_then(|text| number(text, 0.0));
        let rest = lines.next();
        match (clocksource, ppb, uncertainty_ppb, rest) {
            (None, ..) => Err(LearntError("no line `clocksource NAME`")),
            (_, None, ..) => {
                Err(LearntError("no line `ppb NUMBER` with a NUMBER from -500000 to 500000"))
            }
            (_, _, None, _) => {
                Err(LearntError("no line `uncertainty-ppb NUMBER` with a NUMBER up to 500000"))
            }
            (.., Some(_)) => Err(LearntError("more than four lines")),
            (Some(clocksource), Some(ppb), Some(uncertainty_ppb), None) => Ok(Self {
                clocksource: clocksource.to_owned(),
                frequency: LearntFrequency { ppb, uncertainty_ppb },
            }),
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn number(text: &str, least: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (least..=LARGEST_PPB).contains(number))
}

impl fmt::Display for LearntError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for LearntError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "parachron-frequency 1\nclocksource tsc\nppb -12345.678\nuncertainty-ppb 104.200\n";

    #[test]
    fn what_was_learnt_is_read_back() {
        let learnt: Learnt = TEXT.parse().unwrap();
        assert_eq!(learnt.clocksource, "tsc");
        assert_eq!(learnt.frequency, LearntFrequency { ppb: -12_345.678, uncertainty_ppb: 104.2 });
        assert_eq!(learnt.to_string(), TEXT);
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for (from, to) in [
            ("parachron-frequency 1", "parachron-frequency 2"),
            ("clocksource tsc", "clocksource "),
            ("clocksource tsc", "clocksource t\u{7}c"),
            ("-12345.678", "-500001"),
            ("-12345.678", "NaN"),
            ("-12345.678", "inf"),
            ("-12345.678", "fast"),
            ("104.200", "-1"),
            ("104.200\n", "104.200\nmore\n"),
            ("uncertainty-ppb 104.200\n", ""),
            (TEXT, ""),
            (TEXT, "\0\0\0\0"),
        ] {
            assert!(TEXT.replace(from, to).parse::<Learnt>().is_err(), "{to:?}");
        }
    }
}
