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
        // Cut within its last number it would claim a frequency that is known better.
        if !text.ends_with('\n') {
            return Err(LearntError("the last line has no end"));
        }
        let lines: Vec<&str> = text.lines().collect();
        let learnt = || {
            let &[HEADER, clocksource, ppb, uncertainty] = lines.as_slice() else { return None };
            let number = |line: &str, name: &str, least: f64| {
                let number = line.strip_prefix(name)?.parse().ok();
                number.filter(|number| (least..=LARGEST_PPB).contains(number))
            };
            let frequency = LearntFrequency {
                ppb: number(ppb, "ppb ", -LARGEST_PPB)?,
                uncertainty_ppb: number(uncertainty, "uncertainty-ppb ", 0.0)?,
            };
            let name = clocksource.strip_prefix("clocksource ").filter(|name| is_name(name))?;
            Some(Self { clocksource: name.to_owned(), frequency })
        };
        learnt().ok_or(LearntError(
            "expected lines `parachron-frequency 1`, `clocksource NAME`, `ppb NUMBER` and \
             `uncertainty-ppb NUMBER`, with numbers up to 500000",
        ))
    }
}

fn is_name(name: &str) -> bool {
    (1..NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
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
