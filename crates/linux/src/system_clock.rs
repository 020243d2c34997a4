//! The kernel's time of day, as something to correct.
//!
//! Both corrections are one system call each that the kernel carries out or
//! refuses as a whole (kernel/time/timekeeping.c, kernel/time/ntp.c). A *step*
//! adds to the clock (ADJ_SETOFFSET): no time passes between a reading and a
//! setting, as it would with `clock_settime`. A *slew* is `adjtime`'s
//! (ADJ_OFFSET_SINGLESHOT): the kernel gains or loses 500 µs a second until it
//! is done, continues if the caller dies, and leaves the frequency that an NTP
//! daemon has learnt.
//!
//! A step also resets the kernel's discipline: `TK_CLEAR_NTP` in
//! `timekeeping_inject_offset` has `ntp_clear` drop a pending slew, set
//! STA_UNSYNC and set both error estimates to 16 s. Whoever has measured the
//! clock since says so with [`KernelClock::set_error`]: timedatectl, the kernel
//! that writes the RTC each eleven minutes and programs that ask for the error
//! go by it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pvclock::units::{LeapSecond, calendar};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::adjtimex::{self, KernelDiscipline, UNITS_PER_PPB};
use crate::clock::LinuxClock;

/// The capability that setting a clock needs (`man 7 capabilities`).
const CAP_SYS_TIME: u32 = 25;

/// The first user namespace: `PROC_USER_INIT_INO`, include/linux/proc_ns.h.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

const STATUS: &str = "/proc/self/status";

const DAY_NS: u64 = 86_400_000_000_000;

/// The largest slew, ns: at 500 µs a second, an hour and a half. The kernel
/// would take more; a larger correction is meant as a step.
pub const LARGEST_SLEW_NS: i64 = 2_700_000_000;

/// MAXFREQ, include/linux/timex.h.
const LARGEST_PPB: f64 = 500_000.0;

/// CLOCK_REALTIME, to be corrected.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelClock;

/// Why a correction was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// CLOCK_REALTIME shows a time before 1970.
    #[error("CLOCK_REALTIME shows a time before 1970 or after 2554")]
    Unset,
    /// More than the kernel should slew.
    #[error("a slew of {by_ns} ns is beyond {LARGEST_SLEW_NS} ns: step instead")]
    TooLarge {
        /// The slew requested.
        by_ns: i64,
    },
    /// Another process set the frequency: it disciplines this clock.
    #[error("the kernel's frequency is {found_ppb:.1} ppb, and was set to {set_ppb:.1} ppb")]
    SteeredByAnother {
        /// What was set here.
        set_ppb: f64,
        /// What the kernel has.
        found_ppb: f64,
    },
    /// The kernel refused the frequency, or does not show it.
    #[error("adjtimex (frequency): {0}")]
    NotDisciplined(io::Error),
    /// The kernel refused the clock's error.
    #[error("adjtimex (error estimates): {0}")]
    NotReported(io::Error),
    /// The kernel refused.
    #[error("adjtimex ({what} by {by_ns} ns): {error}")]
    Refused {
        /// `step` or `slew`.
        what: &'static str,
        /// The correction requested.
        by_ns: i64,
        /// The system's error.
        error: io::Error,
    },
}

/// Why this process may not set the clock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoPermission {
    /// It lacks the capability.
    #[error("this process lacks the capability CAP_SYS_TIME")]
    NoCapability,
    /// It has the capability of another user namespace.
    #[error("this is a user namespace of its own, whose CAP_SYS_TIME does not apply to the clock")]
    UserNamespace,
    /// It has the capability, and the system call is refused all the same: a seccomp filter.
    #[error("this process has CAP_SYS_TIME, but a sandbox forbids adjtimex: {0}")]
    Sandbox(io::Error),
    /// The kernel's list of its capabilities cannot be read.
    #[error("cannot read the line CapEff in {STATUS}: {0}")]
    Unreadable(io::Error),
}

impl KernelClock {
    /// CLOCK_REALTIME, ns since 1970.
    ///
    /// # Errors
    /// It shows a time before 1970.
    pub fn now_ns(&self) -> Result<u64, SetError> {
        LinuxClock::Realtime.read_ns().ok_or(SetError::Unset)
    }

    /// Adds `by_ns`, to the microsecond, to CLOCK_REALTIME at once. A leap second that is due,
    /// whoever told the kernel of it, is due still where the clock then shows the same UTC day,
    /// which may end with one, and is not where it shows another. (A clock that is not
    /// synchronised does not say whether its second has passed; its day does.)
    ///
    /// # Errors
    /// Not permitted, or to a time that the clock cannot show.
    pub fn step(&mut self, by_ns: i64) -> Result<(), SetError> {
        let due = adjtimex::read().ok().and_then(|found| found.leap_due());
        let day = |clock: &Self| clock.now_ns().map(|ns| ns / DAY_NS).ok();
        let from = day(self).filter(|day| calendar::date((*day).into()).is_leap_day());
        adjtimex::set_offset(nearest_us(by_ns)).map_err(|error| refused("step", by_ns, error))?;
        if due.is_some() {
            // It fails for want of permission alone, which the step had.
            let _ = self.set_leap(due.filter(|_| from.is_some() && from == day(self)));
        }
        Ok(())
    }

    /// Has the kernel gain or lose `by_ns`, to the microsecond, at 500 µs a
    /// second, in place of what is left of the last slew; 0 ends that.
    ///
    /// # Errors
    /// Not permitted, or too large.
    pub fn slew(&mut self, by_ns: i64) -> Result<(), SetError> {
        adjtimex::slew(slew_us(by_ns)?).map_err(|error| refused("slew", by_ns, error))
    }

    /// The frequency correction, ppb, with what a tick of another length adds to it.
    ///
    /// # Errors
    /// A seccomp filter forbids the call.
    pub fn frequency_ppb(&self) -> Result<f64, SetError> {
        adjtimex::read().map(|found| steered_ppb(&found)).map_err(SetError::NotDisciplined)
    }

    /// Puts a tick of another length back to 10 ms. The frequency takes over what both
    /// steered by; beyond its limit that was a slew, or for a counter that ran away, and
    /// it is 0. The tick's length that was found, µs, and the frequency, ppb, where it
    /// was another.
    ///
    /// # Errors
    /// Not permitted.
    pub fn reset_tick(&mut self) -> Result<Option<(i64, f64)>, SetError> {
        let found = adjtimex::read().map_err(SetError::NotDisciplined)?;
        if found.tick_us == adjtimex::TICK_US {
            return Ok(None);
        }
        let ppb = steered_ppb(&found);
        let ppb = if ppb.abs() <= LARGEST_PPB { ppb } else { 0.0 };
        adjtimex::reset_tick(frequency_units(ppb)).map_err(SetError::NotDisciplined)?;
        Ok(Some((found.tick_us, ppb)))
    }

    /// Sets the frequency correction, ppb; it stays until it is set again.
    ///
    /// # Errors
    /// Not permitted.
    pub fn set_frequency(&mut self, ppb: f64) -> Result<(), SetError> {
        adjtimex::set_frequency(frequency_units(ppb)).map_err(SetError::NotDisciplined)
    }

    /// Has the kernel insert or delete a second at the end of the UTC day, or
    /// neither.
    ///
    /// # Errors
    /// Not permitted.
    pub fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), SetError> {
        adjtimex::set_leap(leap).map_err(SetError::NotReported)
    }

    /// Has the kernel report what the clock is probably off by and, where it is
    /// known, the most that it is off by; whether it is synchronised stays.
    ///
    /// # Errors
    /// Not permitted.
    pub fn set_figures(
        &mut self,
        max_error_ns: Option<u64>,
        estimated_error_ns: u64,
    ) -> Result<(), SetError> {
        adjtimex::set_figures(max_error_ns.map(up_to_us), up_to_us(estimated_error_ns))
            .map_err(SetError::NotReported)
    }

    /// Has the kernel report the clock as synchronised, within `max_error_ns`.
    ///
    /// # Errors
    /// Not permitted.
    pub fn set_error(
        &mut self,
        max_error_ns: u64,
        estimated_error_ns: u64,
    ) -> Result<(), SetError> {
        adjtimex::set_error(up_to_us(max_error_ns), up_to_us(estimated_error_ns))
            .map_err(SetError::NotReported)
    }
}

/// What the kernel steers by: a tick that is longer by 1 of 10 000 us gains 100 ppm
/// (`ntp_update_frequency`, kernel/time/ntp.c, adds both).
fn steered_ppb(found: &KernelDiscipline) -> f64 {
    let by_tick = (found.tick_us - adjtimex::TICK_US) as f64 * 1e9 / adjtimex::TICK_US as f64;
    found.frequency_ppb() + by_tick
}

/// Rounded to the nearest; beyond the kernel's limit, that.
fn frequency_units(ppb: f64) -> i64 {
    (ppb.clamp(-LARGEST_PPB, LARGEST_PPB) * UNITS_PER_PPB).round() as i64
}

/// Rounded up: an error is not reported smaller than it is.
fn up_to_us(ns: u64) -> i64 {
    i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX)
}

fn refused(what: &'static str, by_ns: i64, error: io::Error) -> SetError {
    SetError::Refused { what, by_ns, error }
}

fn nearest_us(ns: i64) -> i64 {
    ns.saturating_add(500).div_euclid(1000)
}

fn slew_us(by_ns: i64) -> Result<i64, SetError> {
    if by_ns.unsigned_abs() > LARGEST_SLEW_NS.unsigned_abs() {
        return Err(SetError::TooLarge { by_ns });
    }
    Ok(nearest_us(by_ns))
}

/// Whether this process may set the clock, without a call that could set it.
///
/// The kernel wants CAP_SYS_TIME of the first user namespace: the capability
/// that a container's root has in a user namespace of its own does not count.
/// A seccomp filter may forbid the call all the same: `docker run` without
/// `--cap-add SYS_TIME` does both.
///
/// # Errors
/// It may not, or the kernel does not report it.
pub fn may_set() -> Result<(), NoPermission> {
    let namespace = std::fs::read_link("/proc/self/ns/user");
    let own = namespace.is_ok_and(|link| link.as_os_str() != FIRST_USER_NAMESPACE);
    permitted(&std::fs::read_to_string(STATUS).map_err(NoPermission::Unreadable)?, own)?;
    adjtimex::check_permission().map_err(NoPermission::Sandbox)
}

/// Whether a process has CAP_SYS_TIME in effect, by its `/proc/PID/status`;
/// `None` where that does not show it.
pub fn has_capability(status: &str) -> Option<bool> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(effective & (1 << CAP_SYS_TIME) != 0)
}

/// By `/proc/self/status`, in the first user namespace or another.
fn permitted(status: &str, in_own_user_namespace: bool) -> Result<(), NoPermission> {
    match has_capability(status) {
        Some(true) => {}
        Some(false) => return Err(NoPermission::NoCapability),
        None => {
            let error = io::Error::new(io::ErrorKind::InvalidData, "not hexadecimal digits");
            return Err(NoPermission::Unreadable(error));
        }
    }
    if in_own_user_namespace {
        return Err(NoPermission::UserNamespace);
    }
    Ok(())
}

// A notification when the time of day is set: it cancels a CLOCK_REALTIME
// timer (`man 2 timerfd_create`, TFD_TIMER_CANCEL_ON_SET).

/// The year 36812: the kernel accepts it, and it does not expire.
const NEVER: Timespec = Timespec { tv_sec: 1 << 40, tv_nsec: 0 };

/// Such a timer. Its descriptor is readable as soon as the time of day was
/// set.
#[derive(Debug)]
pub struct ClockSet(OwnedFd);

impl ClockSet {
    /// Reports what happens from now on.
    ///
    /// # Errors
    /// The kernel creates no timer.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: NEVER };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &at)?;
        Ok(Self(timer))
    }

    /// Whether the time of day was set since the last call.
    pub fn was_set(&self) -> bool {
        let mut ticks = [0; 8];
        matches!(rustix::io::read(&self.0, &mut ticks), Err(Errno::CANCELED))
    }
}

impl AsFd for ClockSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
