//! Units as types: a bare `u64` of unsaid unit is how a factor gets lost.

use core::fmt;

/// Nanoseconds, as a time on some clock or as a duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Cycles a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hertz(pub u64);

/// A counter's value, kept unconverted: the cheapest time stamp there is.
///
/// It is converted when the time is needed (`TimeReader::nanos_at` of pvclock),
/// so that a program that stamps often and evaluates seldom pays for the
/// counter alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// Time since 1970-01-01 00:00 UTC without leap seconds, in ns. Not before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub Nanos);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}
