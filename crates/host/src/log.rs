//! The log of one VM's clock: which TSC frequency the guest was given, where it
//! came from, and why its pages are as they are.

use alloc::collections::VecDeque;
use core::fmt;

use pvclock::{Hertz, Nanos, ScaleError};

use crate::{FrequencyFrom, PerVcpu};

/// Entries kept: a guest can cause them, so the oldest are dropped.
const KEPT: usize = 256;

/// One event, with the host's boot clock.
///
/// ```
/// use pvclock_host::{LogEntry, HostLogEvent};
/// use pvclock::Nanos;
/// let entry = LogEntry { at: Nanos(12_000_000_034), what: HostLogEvent::Reenlightened };
/// assert_eq!(
///     entry.to_string(),
///     "     12.000000034 s  TSC: the guest acknowledged the new rate"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// When it happened.
    pub at: Nanos,
    /// What happened.
    pub what: HostLogEvent,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostLogEvent {
    /// The guest was given a TSC frequency.
    TscAdvertised {
        /// The frequency.
        advertised: Hertz,
        /// The rate of the host's TSC.
        host: Hertz,
        /// Where the frequency comes from.
        from: FrequencyFrom,
    },
    /// No page can express the frequency; the old one stays.
    FrequencyRefused(ScaleError),
    /// Nothing runs a TSC at this rate; the old one stays.
    RateRefused {
        /// The rate.
        rate: Hertz,
    },
    /// All vCPUs share one snapshot.
    MasterClock,
    /// Each has its own.
    PerVcpu(PerVcpu),
    /// The host's TSC went back while the host slept; the offsets compensate.
    TscWentBack {
        /// By how many guest cycles.
        cycles: u64,
    },
    /// The clock was set.
    ClockSet {
        /// The clock before.
        from: Nanos,
        /// The clock after.
        to: Nanos,
    },
    /// A saved VM's clock continues.
    Restored {
        /// The clock now.
        clock: Nanos,
        /// The time away that was added.
        away: Nanos,
    },
    /// The guest acknowledged the new rate of its TSC.
    Reenlightened,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.0;
        write!(f, "{:>7}.{:09} s  {}", at / 1_000_000_000, at % 1_000_000_000, self.what)
    }
}

impl fmt::Display for HostLogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TscAdvertised { advertised, host, from } => {
                let from = match from {
                    FrequencyFrom::Host => "the host's own",
                    FrequencyFrom::User => "set by the user",
                };
                let ppm = (advertised.0 as f64 / host.0 as f64 - 1.0) * 1e6;
                write!(f, "TSC: advertised as {advertised}, {from}; ")?;
                write!(f, "the host's runs at {host} ({ppm:+.3} ppm)")
            }
            Self::FrequencyRefused(error) => {
                write!(f, "TSC: the advertised frequency is unchanged: {error}")
            }
            Self::RateRefused { rate } => {
                write!(f, "TSC: its rate is unchanged, as nothing here runs it at {rate}")
            }
            Self::MasterClock => f.write_str(
                "master clock: all vCPUs share one clock snapshot, and TSC_STABLE is set",
            ),
            Self::PerVcpu(why) => {
                write!(f, "no master clock, each vCPU has its own snapshot: {why}")
            }
            Self::TscWentBack { cycles } => {
                write!(f, "TSC: went back by {cycles} guest cycles; the offsets compensate")
            }
            Self::ClockSet { from, to } => write!(f, "clock: set from {from} to {to}"),
            Self::Restored { clock, away } => {
                write!(f, "restored: the clock continues at {clock}, with {away} away added")
            }
            Self::Reenlightened => f.write_str("TSC: the guest acknowledged the new rate"),
        }
    }
}

/// The latest of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostLog(VecDeque<LogEntry>);

impl HostLog {
    pub(crate) fn push(&mut self, at: Nanos, what: HostLogEvent) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(LogEntry { at, what });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogEntry> {
        self.0.iter()
    }
}
