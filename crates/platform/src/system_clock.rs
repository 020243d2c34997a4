//! The kernel's time of day, as something to be corrected: the one place in
//! Parachron that sets a clock.
//!
//! Both corrections are one system call each that the kernel carries out or
//! refuses as a whole (kernel/time/timekeeping.c, kernel/time/ntp.c). A *step*
//! adds to the clock (ADJ_SETOFFSET): no time passes between a reading and a
//! setting, as it would with `clock_settime`. A *slew* is `adjtime`'s
//! (ADJ_OFFSET_SINGLESHOT): the kernel gains or loses 500 µs a second until it
//! is done, goes on if the caller dies, and leaves the frequency that an NTP
//! daemon has learnt.
//!
//! A step makes the kernel forget what it was doing: `TK_CLEAR_NTP` in
//! `timekeeping_inject_offset` has `ntp_clear` drop a slew that is under way,
//! set STA_UNSYNC and set both error estimates to 16 s. That is what they are
//! worth after a disruption; whoever disciplines the clock clears the bit.
//!
//! # Invariants
//! 1. `adjtimex` reads and fills one `timex`, and keeps nothing; ours is a
//!    live local. All zeroes are a valid `timex`.
#![allow(unsafe_code)]

use std::io;

use libc::timex;

use crate::clock::Clock;
use facts::{Fact, Unknown};

/// The capability that setting a clock needs (`man 7 capabilities`).
const CAP_SYS_TIME: u32 = 25;

/// The first user namespace: `PROC_USER_INIT_INO`, include/linux/proc_ns.h.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// The most that is slewed, ns: at 500 µs a second, an hour and a half. The
/// kernel would take more; whoever asks for more means a step.
pub const MOST_SLEWED_NS: i64 = 2_700_000_000;

/// CLOCK_REALTIME, to be corrected.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelClock;

/// Why a correction was not made.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// CLOCK_REALTIME shows a time before 1970.
    #[error("CLOCK_REALTIME shows a time before 1970 or after 2554")]
    Unset,
    /// More than the kernel should be asked to slew.
    #[error("a slew of {by_ns} ns is beyond {MOST_SLEWED_NS} ns: step instead")]
    TooMuch {
        /// What was asked for.
        by_ns: i64,
    },
    /// The kernel refused.
    #[error("adjtimex ({what} by {by_ns} ns): {error}")]
    Refused {
        /// `step` or `slew`.
        what: &'static str,
        /// What was asked for.
        by_ns: i64,
        /// The system's own words.
        error: io::Error,
    },
}

impl KernelClock {
    /// CLOCK_REALTIME, ns since 1970.
    ///
    /// # Errors
    /// It shows a time before 1970.
    pub fn now_ns(&self) -> Result<u64, SetError> {
        Clock::Realtime.read_ns().ok_or(SetError::Unset)
    }

    /// Adds `by_ns`, to the microsecond, to CLOCK_REALTIME at once.
    ///
    /// # Errors
    /// Not permitted, or to a time that the clock cannot show.
    pub fn step(&mut self, by_ns: i64) -> Result<(), SetError> {
        call(step(by_ns)).map(drop).map_err(|error| refused("step", by_ns, error))
    }

    /// Has the kernel gain or lose `by_ns`, to the microsecond, at 500 µs a
    /// second, in place of what is left of the last slew; 0 ends that.
    ///
    /// # Errors
    /// Not permitted, or too much.
    pub fn slew(&mut self, by_ns: i64) -> Result<(), SetError> {
        call(slew(by_ns)?).map(drop).map_err(|error| refused("slew", by_ns, error))
    }
}

fn refused(what: &'static str, by_ns: i64, error: io::Error) -> SetError {
    SetError::Refused { what, by_ns, error }
}

/// Whether this process may set the clock; asks nothing of the clock.
///
/// The kernel wants CAP_SYS_TIME of the first user namespace: the capability
/// that a container's root has in a user namespace of its own does not count.
/// A seccomp filter may forbid the call all the same: `docker run` without
/// `--cap-add SYS_TIME` does both.
pub fn may_set() -> Fact<()> {
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|error| crate::privilege::why(path, &error))
    };
    let namespace = std::fs::read_link("/proc/self/ns/user");
    let own = namespace.is_ok_and(|link| link.as_os_str() != FIRST_USER_NAMESPACE);
    read("/proc/self/status").and_then(|status| permitted(&status, own)).into()
}

/// What `/proc/self/status` says, in the first user namespace or another.
fn permitted(status: &str, in_own_user_namespace: bool) -> Result<(), Unknown> {
    let what = "/proc/self/status";
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()) else {
        return Err(Unknown::malformed(what, "a line CapEff: of hexadecimal digits", status));
    };
    if effective & (1 << CAP_SYS_TIME) == 0 {
        return Err(Unknown::not_applicable("this process lacks the capability CAP_SYS_TIME"));
    }
    if in_own_user_namespace {
        let why =
            "this is a user namespace of its own, whose CAP_SYS_TIME does not reach the clock";
        return Err(Unknown::not_applicable(why));
    }
    Ok(())
}

/// Makes the call; what the kernel left in the structure.
fn call(mut request: timex) -> io::Result<timex> {
    // SAFETY: invariant 1.
    let state = unsafe { libc::adjtimex(&raw mut request) };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

fn nothing() -> timex {
    // SAFETY: invariant 1: integers alone.
    unsafe { std::mem::zeroed() }
}

/// To the nearest microsecond: back by one is a second back and 999 999 µs
/// forward. Nanoseconds would need ADJ_NANO, which sets STA_NANO for good and
/// so changes the unit in which others read and write the kernel's offset
/// (`process_adjtimex_modes`, kernel/time/ntp.c).
fn step(by_ns: i64) -> timex {
    let mut request = nothing();
    request.modes = libc::ADJ_SETOFFSET;
    let by_us = nearest_us(by_ns);
    request.time.tv_sec = by_us.div_euclid(1_000_000);
    request.time.tv_usec = by_us.rem_euclid(1_000_000);
    request
}

fn nearest_us(ns: i64) -> i64 {
    ns.saturating_add(500).div_euclid(1000)
}

/// In microseconds, whatever STA_NANO says, the nearest.
fn slew(by_ns: i64) -> Result<timex, SetError> {
    if by_ns.unsigned_abs() > MOST_SLEWED_NS.unsigned_abs() {
        return Err(SetError::TooMuch { by_ns });
    }
    let mut request = nothing();
    request.modes = libc::ADJ_OFFSET_SINGLESHOT;
    request.offset = nearest_us(by_ns);
    Ok(request)
}

#[cfg(test)]
mod tests;
