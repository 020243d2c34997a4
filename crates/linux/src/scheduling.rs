//! What a thread may ask of the scheduler and of timers.
//!
//! # Invariants
//! 1. `sched_setscheduler` reads one `sched_param`, an `int` to the kernel
//!    (include/uapi/linux/sched/types.h), and keeps nothing; ours is a live local.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU64;

use rustix::io::Errno;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use crate::clock::LinuxClock;

/// From now on this thread runs only where no other wants to (SCHED_IDLE).
///
/// # Errors
/// Those of `sched_setscheduler`.
pub fn yield_to_all() -> io::Result<()> {
    let priority: libc::c_int = 0;
    // musl's own wrapper refuses always (src/sched/sched_setscheduler.c).
    // SAFETY: invariant 1.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// By how much this thread's timers may fire late, ns.
///
/// # Errors
/// Those of `prctl`.
pub fn timer_slack_ns() -> io::Result<u64> {
    Ok(rustix::thread::current_timer_slack()?)
}

/// Sets it, ns.
///
/// # Errors
/// Those of `prctl`.
pub fn set_timer_slack_ns(ns: NonZeroU64) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(ns))?)
}

/// Sleeps until CLOCK_MONOTONIC shows `ns`.
///
/// # Errors
/// Those of `clock_nanosleep`, but for an interruption.
pub fn sleep_until_ns(ns: u64) -> io::Result<()> {
    sleep_until(LinuxClock::Monotonic, ns)
}

/// Sleeps until a clock shows `ns`.
///
/// # Errors
/// Those of `clock_nanosleep`, but for an interruption: not every clock has timers.
pub fn sleep_until(clock: LinuxClock, ns: u64) -> io::Result<()> {
    let clock = ClockId::try_from(clock.id())?;
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let until = Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        // Below a second.
        tv_nsec: rest as _,
    };
    loop {
        match clock_nanosleep_absolute(clock, &until) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_after_its_time_and_one_in_the_past_at_once() {
        let started = LinuxClock::Monotonic.read_ns().unwrap();
        sleep_until_ns(started + 2_000_000).unwrap();
        let ended = LinuxClock::Monotonic.read_ns().unwrap();
        assert!(ended >= started + 2_000_000);
        sleep_until_ns(0).unwrap();
    }

    #[test]
    fn slack_is_what_was_set() {
        let before = timer_slack_ns().unwrap();
        set_timer_slack_ns(NonZeroU64::MIN).unwrap();
        assert_eq!(timer_slack_ns().unwrap(), 1);
        set_timer_slack_ns(NonZeroU64::new(before).unwrap_or(NonZeroU64::MIN)).unwrap();
    }

    #[test]
    fn an_idle_thread_still_runs() {
        std::thread::spawn(|| yield_to_all().unwrap()).join().unwrap();
    }
}
