//! The TSC's rate, measured against the host's clock.
//!
//! A sample is the TSC and the boot clock, read one inside the other; its
//! width is how long the outer reading took, so that either clock is off by at
//! most that against the other. A preemption in between makes a wide sample,
//! and those are left out. The rate is the slope between the narrowest sample
//! of the first quarter and that of the last, and its error what the two
//! widths can do to it:
//!
//! ```text
//! rate  = (tsc₂ − tsc₁) / (boot₂ − boot₁)
//! error ≤ rate · (width₁ + width₂ + excess) / (boot₂ − boot₁) + 1 Hz
//! ```
//!
//! All other samples must lie on that line within their widths. How far the
//! worst is beyond that is the *excess*: the two clocks did not run evenly
//! (a clock was steered or stepped, the TSC changed its rate).
//!
//! The bound is against the host's clock. How far that is off against true
//! time is for its NTP daemon to say.

use alloc::vec::Vec;
use core::fmt;

use pvclock::{Hertz, Nanos};

use crate::Reading;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Samples wider than so many times the median are left out.
const WIDEST: u64 = 2;

/// Both clocks, and how far apart they may have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The clocks.
    pub reading: Reading,
    /// From the first look at one of them to the last.
    pub width: Nanos,
}

/// A measured rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// The TSC's.
    pub frequency: Hertz,
    /// Which it is off by at most, either way.
    pub error: Hertz,
    /// How long it was measured.
    pub span: Nanos,
    /// The samples that count.
    pub used: usize,
    /// Those left out for their width.
    pub left_out: usize,
    /// How far the worst lies off the line beyond what widths explain.
    pub excess: Nanos,
}

impl Calibration {
    /// Its error in parts per million.
    pub fn error_ppm(&self) -> f64 {
        self.error.0 as f64 / self.frequency.0 as f64 * 1e6
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ± {} ({:.3} ppm) over {} by {} samples, {} more left out as too wide",
            self.frequency,
            self.error,
            self.error_ppm(),
            self.span,
            self.used,
            self.left_out
        )?;
        if self.excess.0 > 0 {
            write!(f, "; the clocks ran unevenly, by {}", self.excess)?;
        }
        Ok(())
    }
}

/// Samples that give no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// Too few.
    #[error("{used} samples count, {left_out} are too wide; 2 are needed")]
    TooFew {
        /// How many count.
        used: usize,
        /// How many do not.
        left_out: usize,
    },
    /// The reference did not run.
    #[error("the boot clock went from {from} to {to}")]
    NoTime {
        /// At the one sample.
        from: Nanos,
        /// At the later.
        to: Nanos,
    },
    /// The TSC did not run, or went back.
    #[error("the TSC went from {from} to {to} in {span}")]
    NoCycles {
        /// At the one sample.
        from: u64,
        /// At the later.
        to: u64,
        /// Between them.
        span: Nanos,
    },
    /// Widths and excess say nothing is known.
    #[error("{frequency} with an error of {error}")]
    Useless {
        /// The slope.
        frequency: u128,
        /// Its error.
        error: u128,
    },
}

/// The TSC's rate by samples in the order they were taken.
///
/// # Errors
/// [`CalibrationError`].
///
/// ```
/// use host::{Reading, Sample, calibrate};
/// use units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let sample = |ns: u64| Sample {
///     reading: Reading { tsc: Ticks(3 * ns), boot: Nanos(ns), real: UnixTime(Nanos(ns)) },
///     width: Nanos(100),
/// };
/// let samples: Vec<_> = (0..=10).map(|i| sample(i * 100_000_000)).collect();
/// let calibration = calibrate(&samples)?;
/// assert_eq!(calibration.frequency, Hertz(3_000_000_000));
/// assert!(calibration.error_ppm() < 0.201); // 2 · 100 ns in 1 s
/// # Ok::<(), host::CalibrationError>(())
/// ```
pub fn calibrate(samples: &[Sample]) -> Result<Calibration, CalibrationError> {
    let mut widths: Vec<u64> = samples.iter().map(|sample| sample.width.0).collect();
    widths.sort_unstable();
    let widest = widths.get(widths.len() / 2).map_or(0, |median| median.saturating_mul(WIDEST));
    let used: Vec<_> = samples.iter().filter(|sample| sample.width.0 <= widest).collect();
    let left_out = samples.len() - used.len();
    let quarter = used.len().div_ceil(4);
    // Among equals the outermost: the longer the span, the better.
    let first = used.iter().take(quarter).min_by_key(|sample| sample.width);
    let last = used.iter().rev().take(quarter).min_by_key(|sample| sample.width);
    let (2.., Some(first), Some(last)) = (used.len(), first, last) else {
        return Err(CalibrationError::TooFew { used: used.len(), left_out });
    };
    let line = Line::through(first, last)?;
    let excess = used.iter().map(|sample| line.excess(sample)).max().unwrap_or(0);
    let uncertain = line.widths + excess;
    let frequency = (line.cycles * NANOS_PER_SECOND + line.span / 2) / line.span;
    let error = (frequency * uncertain) / line.span + 1;
    let whole = |hertz: i128| u64::try_from(hertz).ok().map(Hertz);
    match (whole(frequency), whole(error)) {
        (Some(rate), Some(off)) if off < rate => Ok(Calibration {
            frequency: rate,
            error: off,
            span: Nanos(u64::try_from(line.span).unwrap_or(u64::MAX)),
            used: used.len(),
            left_out,
            excess: Nanos(u64::try_from(excess).unwrap_or(u64::MAX)),
        }),
        _ => Err(CalibrationError::Useless {
            frequency: frequency.unsigned_abs(),
            error: error.unsigned_abs(),
        }),
    }
}

/// The line through two samples; all in 64 bits, so that products fit 128.
struct Line {
    tsc: i128,
    boot: i128,
    cycles: i128,
    span: i128,
    widths: i128,
}

impl Line {
    fn through(first: &Sample, last: &Sample) -> Result<Self, CalibrationError> {
        let (from, to) = (first.reading, last.reading);
        let span = i128::from(to.boot.0) - i128::from(from.boot.0);
        if span <= 0 {
            return Err(CalibrationError::NoTime { from: from.boot, to: to.boot });
        }
        let cycles = i128::from(to.tsc.0) - i128::from(from.tsc.0);
        if cycles <= 0 {
            let span = Nanos(to.boot.0 - from.boot.0);
            return Err(CalibrationError::NoCycles { from: from.tsc.0, to: to.tsc.0, span });
        }
        let widths = i128::from(first.width.0) + i128::from(last.width.0);
        let (tsc, boot) = (i128::from(from.tsc.0), i128::from(from.boot.0));
        Ok(Self { tsc, boot, cycles, span, widths })
    }

    /// How far a sample lies off the line, in ns, beyond the widths.
    fn excess(&self, sample: &Sample) -> i128 {
        let cycles = i128::from(sample.reading.tsc.0) - self.tsc;
        // 65 bits by 64 bits can be more than 127: such a sample is off anyway.
        let expected = cycles.checked_mul(self.span).map_or(i128::from(u64::MAX), |product| {
            (product / self.cycles).min(i128::from(u64::MAX))
        });
        let actual = i128::from(sample.reading.boot.0) - self.boot;
        let off = (actual - expected).unsigned_abs().min(u128::from(u64::MAX)) as i128;
        // One for the division.
        (off - self.widths - i128::from(sample.width.0) - 1).max(0)
    }
}
