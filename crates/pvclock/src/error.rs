//! Why a page could not be read, with every operand of the failed step.

use core::fmt;

use crate::units::Malformed;
use crate::{Hertz, Nanos, Scale};

/// A read that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The page changed, or was being changed, at every try.
    NeverFinished {
        /// The version last seen.
        version: u32,
        /// How often it was tried.
        tries: u32,
    },
    /// The host has not written this page, or has withdrawn it: use another
    /// source.
    SwitchedOff {
        /// The version (Hyper-V: sequence) seen.
        version: u32,
    },
    /// The counter reads less than the page's own time stamp: it went
    /// backward, or belongs to another CPU than the page.
    CounterBehind {
        /// The counter, in cycles.
        counter: u64,
        /// The page's time stamp, in cycles.
        timestamp: u64,
    },
    /// The page's fields lead past the end of 64 bits of nanoseconds.
    Overflow {
        /// The page's time.
        base: Nanos,
        /// Cycles since.
        delta: u64,
        /// The page's scale.
        scale: Scale,
    },
    /// As [`ReadError::Overflow`], on Hyper-V's page, in units of 100 ns.
    ReferenceOverflow {
        /// The counter, in cycles.
        counter: u64,
        /// The page's scale, units of 100 ns · 2^64 a cycle.
        scale: u64,
        /// The page's offset, 100 ns.
        offset: i64,
    },
    /// A field contains what none of its writers can have meant (ClockBound's segments).
    Malformed(Malformed),
    /// As [`ReadError::Overflow`], on VMClock's page.
    VmClockOverflow {
        /// The page's seconds.
        seconds: u64,
        /// Cycles since.
        delta: u64,
        /// The page's counter period, units of 2^−(64+shift) s.
        period: u64,
        /// The shift of that unit.
        period_shift: u8,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NeverFinished { version, tries } => {
                write!(
                    f,
                    "the page was being written at each of {tries} tries; its version is {version}"
                )
            }
            Self::SwitchedOff { version } => {
                write!(f, "the page is switched off (version {version})")
            }
            Self::CounterBehind { counter, timestamp } => {
                write!(f, "the counter, {counter}, is behind the page's time stamp, {timestamp}")
            }
            Self::Overflow { base, delta, scale } => write!(
                f,
                "{base} and {delta} cycles at mul {:#010x} shift {} exceed 64 bits of nanoseconds",
                scale.mul(),
                scale.shift()
            ),
            Self::ReferenceOverflow { counter, scale, offset } => {
                write!(f, "({counter} × {scale} >> 64) + {offset} is not a time in 64 bits")
            }
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::VmClockOverflow { seconds, delta, period, period_shift } => write!(
                f,
                "{seconds} s and {delta} cycles of {period} × 2^−(64+{period_shift}) s exceed 64 bits of seconds"
            ),
        }
    }
}

impl core::error::Error for ReadError {}

/// Memory that does not contain the expected page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageError {
    /// The address does not suit the page's type.
    Misaligned {
        /// The address.
        address: usize,
        /// What it must be a multiple of.
        align: usize,
    },
    /// VMClock, ClockBound: another magic number.
    Magic {
        /// What is there.
        found: u32,
    },
    /// VMClock, ClockBound: a version of the layout that this crate does not know.
    LayoutVersion {
        /// What is there.
        found: u16,
    },
    /// VMClock, ClockBound: a region too small for the layout.
    Size {
        /// The size in the page, bytes.
        found: u32,
        /// The least that is needed, bytes.
        needed: u32,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Misaligned { address, align } => {
                write!(f, "address {address:#x} is not a multiple of {align}")
            }
            Self::Magic { found } => {
                write!(f, "magic number {found:#010x} is not this page's")
            }
            Self::LayoutVersion { found } => {
                write!(f, "layout version {found} is not known")
            }
            Self::Size { found, needed } => {
                write!(f, "a region of {found} bytes where {needed} are needed")
            }
        }
    }
}

impl core::error::Error for PageError {}

/// A frequency that no scale can express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleError {
    /// The frequency requested.
    pub frequency: Hertz,
    /// The least that is possible.
    pub min: Hertz,
    /// The most that is possible.
    pub max: Hertz,
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no scale for {}: it must be from {} to {}", self.frequency, self.min, self.max)
    }
}

impl core::error::Error for ScaleError {}
