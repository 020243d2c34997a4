//! What a person wants to know of a clock's life: which rate the guest is
//! told and by whom, and why its pages are as they are.

use alloc::collections::VecDeque;
use core::fmt;

use pvclock::{Hertz, Nanos, ScaleError};

use crate::{FrequencyFrom, PerVcpu};

/// Entries kept: a guest can cause them, so the oldest go.
const KEPT: usize = 256;

/// Something that happened, and when by the host's boot clock.
///
/// ```
/// use host::{LogEntry, LogEvent};
/// use pvclock::Nanos;
/// let entry = LogEntry { at: Nanos(12_000_000_034), what: LogEvent::Reenlightened };
/// assert_eq!(
///     entry.to_string(),
///     "     12.000000034 s  the guest has taken note of its TSC's new rate"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// When.
    pub at: Nanos,
    /// What.
    pub what: LogEvent,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEvent {
    /// The guest is told a rate.
    Told {
        /// Which.
        told: Hertz,
        /// What the host's TSC runs at.
        host: Hertz,
        /// Who says so.
        by: FrequencyFrom,
    },
    /// A rate was to be told that no page can express; the old one stands.
    Refused(ScaleError),
    /// All vCPUs share one line.
    MasterClock,
    /// Each has its own.
    PerVcpu(PerVcpu),
    /// The host's TSC had gone back by so much when it woke: made up for.
    TscWentBack {
        /// Cycles of the guest's.
        cycles: u64,
    },
    /// The clock was set.
    ClockSet {
        /// What it said.
        from: Nanos,
        /// What it says.
        to: Nanos,
    },
    /// The clock of a saved VM goes on.
    Restored {
        /// What it says.
        clock: Nanos,
        /// Time passed while away, as far as it was added.
        away: Nanos,
    },
    /// The guest has taken note of its TSC's new rate.
    Reenlightened,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.0;
        write!(f, "{:>7}.{:09} s  {}", at / 1_000_000_000, at % 1_000_000_000, self.what)
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Told { told, host, by } => {
                write!(f, "the guest is told a TSC of {told}, ")?;
                match by {
                    FrequencyFrom::GuestClock => f.write_str("the host's own figure")?,
                    FrequencyFrom::User => f.write_str("as the user says")?,
                    FrequencyFrom::Calibration { error } => write!(f, "measured within ±{error}")?,
                }
                let ppm = (told.0 as f64 / host.0 as f64 - 1.0) * 1e6;
                write!(f, "; the host's runs at {host} ({ppm:+.3} ppm)")
            }
            Self::Refused(error) => write!(f, "the rate told stays as it was: {error}"),
            Self::MasterClock => f.write_str("master clock: all vCPUs share one line, TSC_STABLE"),
            Self::PerVcpu(why) => write!(f, "no master clock, each vCPU has its own line: {why}"),
            Self::TscWentBack { cycles } => {
                write!(f, "the host's TSC went back by {cycles} guest cycles; offsets make up")
            }
            Self::ClockSet { from, to } => write!(f, "the clock was set from {from} to {to}"),
            Self::Restored { clock, away } => {
                write!(f, "restored: the clock goes on at {clock}, of which {away} passed away")
            }
            Self::Reenlightened => f.write_str("the guest has taken note of its TSC's new rate"),
        }
    }
}

/// The last of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(VecDeque<LogEntry>);

impl Log {
    pub(crate) fn push(&mut self, at: Nanos, what: LogEvent) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(LogEntry { at, what });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogEntry> {
        self.0.iter()
    }
}
