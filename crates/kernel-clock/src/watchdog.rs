//! The clock source watchdog: it compares a source that is not trusted with one
//! that is, each half second, and gives the first up when they differ too much.
//! How it does so has been rewritten twice; the rules are data, by version
//! (kernel/time/clocksource.c):
//!
//! | from | gives up at | a slow readout |
//! | --- | --- | --- |
//! | 2.6.16 (read in a 3.x and a 4.x) | 62.5 ms a check | is not seen, and counts as skew |
//! | 5.14 (6.1.176) | both margins, each 200 µs at least: 400 µs a check | beyond 100 µs is retried, then the source is given up; if the reference alone is slow, no check for 5 min |
//! | 6.3 (6.12.101) | 250 µs each: 500 µs a check | as above; in 6.12 beyond three margins |
//! | 7.1 (read in 7.2.13) | 1/256 of the interval, or 1/2048 (488 ppm) if both rates were measured, and the readout | beyond 50 µs is retried three times, then the check is dropped |
//!
//! A check after more than 1 s says nothing from 6.8 on, and in the stable series
//! of February 2024 (644649553508); from 7.1 on one that is longer than either
//! source may be idle. Before, the reference may have wrapped meanwhile, and
//! condemned a source without fault.

use crate::kernel::{LinuxKernel, Version};
use crate::source::KernelClockSource;

/// From here on the source is read between two reads of the reference, and the log gives
/// nanoseconds: commits db3a34e17433, 2e27e793e280 and 22a223833716 were committed on
/// 2021-06-22, after 5.13-rc7, and are in 5.14-rc1. Some older stable series have the first.
pub const BRACKETED: Version = Version(5, 14, 0);

/// From here on the watchdog is as rewritten by commit 763aacf86f1b.
pub const REWRITTEN: Version = Version(7, 1, 0);

/// The old threshold, ns.
const THRESHOLD_NS: u64 = 62_500_000;

/// The longest interval that margins are good for, ns.
const LONGEST_NS: u64 = 1_000_000_000;

/// The longest readout of 7.1, ns, and how often one is tried.
const READOUT_NS: u64 = 50_000;
const TRIES: u32 = 3;

/// One readout: the counters in the order they are read, of which old kernels
/// read the first two only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readout {
    /// The reference.
    pub reference: u64,
    /// The source that is watched.
    pub watched: u64,
    /// The reference again.
    pub after: u64,
    /// And once more.
    pub again: u64,
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchdogVerdict {
    /// The first, to which the next compares.
    Started,
    /// The two agree. From now on the source is good for high resolution.
    Fine,
    /// The interval was too long to say anything.
    TooLong {
        /// By the counter that says more, ns.
        interval_ns: u64,
    },
    /// The readouts were too slow to say anything.
    TooSlow {
        /// The last, ns.
        readout_ns: u64,
    },
    /// The source is given up, for its readouts: the machine was stopped between
    /// two reads of a reference that is fast by itself.
    UnstableReadout {
        /// The last, ns.
        readout_ns: u64,
    },
    /// The source is given up: it was ahead of the reference by so much.
    UnstableSkew {
        /// The skew, ns.
        skew_ns: i64,
        /// What would have been taken, ns.
        limit_ns: u64,
    },
}

impl WatchdogVerdict {
    /// Whether the source is given up, for good.
    #[must_use]
    pub fn is_unstable(self) -> bool {
        matches!(self, Self::UnstableReadout { .. } | Self::UnstableSkew { .. })
    }
}

/// How a version judges.
#[derive(Debug, Clone, Copy)]
enum Rules {
    Threshold,
    /// The least margin is twice the skew.
    Margins {
        skew_ns: u64,
        readout_by_margins: bool,
    },
    Bracketed,
}

impl Rules {
    fn new(kernel: LinuxKernel) -> Self {
        let version = kernel.version;
        if version < BRACKETED {
            Self::Threshold
        } else if version < REWRITTEN {
            let skew_ns = if version < Version(6, 3, 0) { 100_000 } else { 125_000 };
            Self::Margins { skew_ns, readout_by_margins: version >= Version(6, 12, 0) }
        } else {
            Self::Bracketed
        }
    }
}

/// The watchdog of one source.
///
/// ```
/// use kernel_clock::watchdog::{Readout, WatchdogVerdict, Watchdog};
/// use kernel_clock::{KernelClockSource, LinuxKernel, Version};
///
/// // A TSC of 1 GHz that gains 1 ms in half a second on an HPET of 100 MHz.
/// let tsc = KernelClockSource::tsc(1_000_000);
/// let check = |version| {
///     let kernel = LinuxKernel::new(version, 250);
///     let mut watchdog = Watchdog::new(kernel, tsc, KernelClockSource::hpet(100_000_000), 1);
///     let at = |reference: u64, watched| Readout {
///         reference, watched, after: reference + 100, again: reference + 200,
///     };
///     watchdog.check(|| at(0, 0));
///     watchdog.check(|| at(50_000_000, 501_000_000))
/// };
/// assert_eq!(check(Version(5, 10, 223)), WatchdogVerdict::Fine);
/// let given_up = WatchdogVerdict::UnstableSkew { skew_ns: 1_000_000, limit_ns: 400_000 };
/// assert_eq!(check(Version(6, 1, 176)), given_up);
/// assert!(check(Version(7, 2, 13)).is_unstable());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchdog {
    kernel: LinuxKernel,
    watched: KernelClockSource,
    reference: KernelClockSource,
    cpus: u32,
    /// The last readings, watched and reference.
    last: Option<(u64, u64)>,
}

impl Watchdog {
    /// Of a source, by a reference, on a machine with so many CPUs: on more of
    /// them, slow readouts are tried again more often.
    #[must_use]
    pub fn new(
        kernel: LinuxKernel,
        watched: KernelClockSource,
        reference: KernelClockSource,
        cpus: u32,
    ) -> Self {
        Self { kernel, watched, reference, cpus: cpus.max(1), last: None }
    }

    /// How far the two may differ after an interval, ns, with a readout of so
    /// many ns: what a model of a machine needs to skip all checks that pass.
    #[must_use]
    pub fn limit_ns(&self, interval_ns: u64, readout_ns: u64) -> u64 {
        match Rules::new(self.kernel) {
            Rules::Threshold => THRESHOLD_NS,
            Rules::Margins { skew_ns, .. } => {
                margin(&self.watched, skew_ns) + margin(&self.reference, skew_ns)
            }
            Rules::Bracketed => {
                let is_measured = self.watched.is_calibrated && self.reference.is_calibrated;
                (interval_ns >> if is_measured { 11 } else { 8 }) + readout_ns
            }
        }
    }

    /// A check; `read` reads the counters, once for each try.
    pub fn check(&mut self, mut read: impl FnMut() -> Readout) -> WatchdogVerdict {
        match Rules::new(self.kernel) {
            Rules::Threshold => self.judge(read(), 0),
            Rules::Margins { skew_ns, readout_by_margins } => {
                self.by_margins(read, skew_ns, readout_by_margins)
            }
            Rules::Bracketed => {
                let mut readout_ns = 0;
                for _ in 0..TRIES {
                    let readout = read();
                    readout_ns = self.reference_ns(readout.reference, readout.after);
                    if readout_ns <= READOUT_NS {
                        return self.judge(readout, readout_ns);
                    }
                }
                self.last = None;
                WatchdogVerdict::TooSlow { readout_ns }
            }
        }
    }

    fn by_margins(
        &mut self,
        mut read: impl FnMut() -> Readout,
        skew_ns: u64,
        by_margins: bool,
    ) -> WatchdogVerdict {
        let reference_ns = margin(&self.reference, skew_ns);
        let watched_ns = margin(&self.watched, skew_ns);
        let (slow_ns, alone_ns) = if by_margins {
            (reference_ns + watched_ns, reference_ns)
        } else {
            (skew_ns, skew_ns / 2)
        };
        let mut readout_ns = 0;
        for _ in 0..=self.cpus.ilog2() / 2 + 1 {
            let readout = read();
            readout_ns = self.reference_ns(readout.reference, readout.after);
            if readout_ns <= slow_ns {
                return self.judge(readout, readout_ns);
            }
            if self.reference_ns(readout.after, readout.again) > alone_ns {
                self.last = None;
                return WatchdogVerdict::TooSlow { readout_ns };
            }
        }
        WatchdogVerdict::UnstableReadout { readout_ns }
    }

    fn judge(&mut self, readout: Readout, readout_ns: u64) -> WatchdogVerdict {
        let Some((watched, reference)) = self.last.replace((readout.watched, readout.reference))
        else {
            return WatchdogVerdict::Started;
        };
        let counts = self.watched.elapsed(self.kernel, watched, readout.watched);
        let watched_ns = self.watched.nanos(counts);
        let reference_ns = self.reference_ns(reference, readout.reference);
        let interval_ns = watched_ns.max(reference_ns);
        let longest_ns = match Rules::new(self.kernel) {
            Rules::Threshold => u64::MAX,
            Rules::Margins { .. } if !skips_long(self.kernel) => u64::MAX,
            Rules::Margins { .. } => LONGEST_NS,
            Rules::Bracketed => {
                self.watched.longest_idle_ns().min(self.reference.longest_idle_ns())
            }
        };
        if interval_ns > longest_ns {
            return WatchdogVerdict::TooLong { interval_ns };
        }
        let limit_ns = self.limit_ns(interval_ns, readout_ns);
        let skew_ns = watched_ns.wrapping_sub(reference_ns).cast_signed();
        // 7.1 gives up at its limit, the others beyond it.
        let is_strict = matches!(Rules::new(self.kernel), Rules::Bracketed);
        let beyond = skew_ns.unsigned_abs() + u64::from(is_strict);
        if beyond > limit_ns {
            WatchdogVerdict::UnstableSkew { skew_ns, limit_ns }
        } else {
            WatchdogVerdict::Fine
        }
    }

    fn reference_ns(&self, before: u64, after: u64) -> u64 {
        self.reference.nanos(self.reference.elapsed(self.kernel, before, after))
    }
}

/// Whether a long interval is not judged (6.8, 6.7.3, 6.6.15, 6.1.76, 5.15.149).
fn skips_long(kernel: LinuxKernel) -> bool {
    let Version(major, minor, patch) = kernel.version;
    match (major, minor) {
        (5, 15) => patch >= 149,
        (6, 1) => patch >= 76,
        (6, 6) => patch >= 15,
        (6, 7) => patch >= 3,
        _ => kernel.version >= Version(6, 8, 0),
    }
}

/// How far a source may be off in a check, ns: its own figure, or a count of it,
/// and the least of the version.
fn margin(source: &KernelClockSource, skew_ns: u64) -> u64 {
    match source.margin_ns {
        0 => (1_000_000_000 / source.hz).max(2 * skew_ns),
        own => own.into(),
    }
}

#[cfg(test)]
mod tests;
