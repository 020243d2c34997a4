//! The clocks of `clock_gettime`, read through libc: the way programs do.
//!
//! # Invariants
//! 1. `clock_gettime` and `clock_getres` write one `timespec` to the pointer
//!    they are given and keep nothing; ours is a live local.
#![allow(unsafe_code)]

use std::io;

use libc::{clockid_t, timespec};
use pvclock::units::ClockPair;
use strum::{IntoStaticStr, VariantArray};

/// A clock id of `clock_gettime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", prefix = "CLOCK_")]
pub enum LinuxClock {
    /// Time of day, stepped and slewed.
    Realtime,
    /// Time since boot without suspended time, slewed.
    Monotonic,
    /// Time since boot as the clock source has it, not slewed.
    MonotonicRaw,
    /// Time of day at the last tick.
    RealtimeCoarse,
    /// Monotonic time at the last tick.
    MonotonicCoarse,
    /// Time since boot with suspended time.
    Boottime,
    /// Time of day without leap seconds.
    Tai,
    /// CPU time of this process.
    #[strum(serialize = "PROCESS_CPUTIME_ID")]
    ProcessCputime,
    /// CPU time of this thread.
    #[strum(serialize = "THREAD_CPUTIME_ID")]
    ThreadCputime,
}

impl LinuxClock {
    /// All of them, the everyday ones first.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Its name in C: `CLOCK_MONOTONIC`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its number.
    pub fn id(self) -> clockid_t {
        match self {
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::RealtimeCoarse => libc::CLOCK_REALTIME_COARSE,
            Self::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
            Self::ProcessCputime => libc::CLOCK_PROCESS_CPUTIME_ID,
            Self::ThreadCputime => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }

    /// Its reading, ns; `None` where the kernel has no such clock.
    #[inline]
    pub fn read_ns(self) -> Option<u64> {
        let mut reading = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: invariant 1.
        let result = unsafe { libc::clock_gettime(self.id(), &raw mut reading) };
        (result == 0).then(|| nanoseconds(reading)).flatten()
    }

    /// The resolution `clock_getres` claims, ns.
    pub fn claimed_resolution_ns(self) -> Option<u64> {
        let mut resolution = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: invariant 1.
        let result = unsafe { libc::clock_getres(self.id(), &raw mut resolution) };
        (result == 0).then(|| nanoseconds(resolution)).flatten()
    }
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME, one right after the other.
///
/// # Errors
/// CLOCK_REALTIME shows a time before 1970 or after 2554.
pub fn pair() -> io::Result<ClockPair> {
    let read = |clock: LinuxClock| {
        let outside = || io::Error::other("a time before 1970 or after 2554");
        clock.read_ns().ok_or_else(outside)
    };
    Ok(ClockPair {
        monotonic_ns: read(LinuxClock::Monotonic)?,
        realtime_ns: read(LinuxClock::Realtime)?,
    })
}

/// `None` before 1970, which only a time of day that was never set shows.
fn nanoseconds(time: timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let rest = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_reads_and_claims_a_resolution() {
        for clock in LinuxClock::ALL {
            assert!(clock.read_ns().is_some(), "{clock:?}");
            assert!(clock.claimed_resolution_ns() > Some(0), "{clock:?}");
        }
    }

    #[test]
    fn monotonic_clocks_do_not_go_back() {
        for clock in [LinuxClock::Monotonic, LinuxClock::MonotonicRaw, LinuxClock::Boottime] {
            let first = clock.read_ns();
            assert!(clock.read_ns() >= first, "{clock:?}");
        }
    }

    #[test]
    fn times_that_do_not_fit_are_none() {
        assert_eq!(nanoseconds(timespec { tv_sec: -1, tv_nsec: 0 }), None);
        assert_eq!(nanoseconds(timespec { tv_sec: i64::MAX, tv_nsec: 0 }), None);
        assert_eq!(nanoseconds(timespec { tv_sec: 1, tv_nsec: 5 }), Some(1_000_000_005));
    }
}
