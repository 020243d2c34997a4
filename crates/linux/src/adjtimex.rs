//! `adjtimex`: the kernel's clock discipline, read and changed. The one place
//! in Parachron that makes this call.
//!
//! # Invariants
//! 1. `adjtimex` reads and fills one `timex`, and keeps nothing; ours is a
//!    live local. All zeroes are a valid `timex`, whose `modes` of 0 sets
//!    nothing (`man 2 adjtimex`).
#![allow(unsafe_code)]

use std::io;

use libc::timex;
use pvclock::units::LeapSecond;

/// The kernel's units of frequency, 2^-16 ppm, in a ppb.
pub const UNITS_PER_PPB: f64 = 65.536;

/// The kernel's clock discipline, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelDiscipline {
    /// The call's return: `TIME_OK`, …, `TIME_ERROR`.
    pub state: i32,
    /// Offset still to be slewed: ns with STA_NANO, else µs.
    pub offset: i64,
    /// Frequency correction, in 2^-16 ppm.
    pub frequency: i64,
    /// Largest error the kernel assumes, µs.
    pub max_error_us: i64,
    /// Estimated error, µs.
    pub estimated_error_us: i64,
    /// `STA_*`.
    pub status: i32,
    /// Length of a tick, µs.
    pub tick_us: i64,
    /// TAI − UTC, s; 0 where no daemon has set it.
    pub tai_s: i32,
}

impl KernelDiscipline {
    /// Whether a daemon vouches for the clock: neither TIME_ERROR nor
    /// STA_UNSYNC.
    pub const fn is_synchronised(&self) -> bool {
        self.state != libc::TIME_ERROR && self.status & libc::STA_UNSYNC == 0
    }

    /// Frequency correction, ppb.
    pub fn frequency_ppb(&self) -> f64 {
        self.frequency as f64 / UNITS_PER_PPB
    }

    /// How far the clock may be off, as the daemon that vouches for it states, ns:
    /// nothing where none does, where it gave up, or where it left no room for what
    /// it still has to slew.
    ///
    /// systemd-timesyncd states 0 at each poll, whatever its server's distance
    /// (`manager_adjust_clock`, timesyncd-manager.c): callers who know that it runs
    /// take no bound from here.
    pub fn stated_error_ns(&self) -> Option<u64> {
        if !self.is_synchronised() || self.max_error_us >= GIVEN_UP_US {
            return None;
        }
        u64::try_from(self.max_error_us).ok()?.checked_mul(1_000)
    }

    /// The leap second that is due at the end of the day: as it passes (TIME_OOP) and
    /// after it (TIME_WAIT) the flag stays until somebody clears it.
    pub const fn leap_due(&self) -> Option<LeapSecond> {
        if matches!(self.state, libc::TIME_OOP | libc::TIME_WAIT) {
            None
        } else if self.status & libc::STA_INS != 0 {
            Some(LeapSecond::Inserted)
        } else if self.status & libc::STA_DEL != 0 {
            Some(LeapSecond::Deleted)
        } else {
            None
        }
    }
}

/// What no daemon would state: the kernel begins with it, and gives up at it
/// (NTP_PHASE_LIMIT, include/linux/timex.h), µs.
const GIVEN_UP_US: i64 = 16_000_000;

/// Reads it; nothing is set, and no permission is needed.
///
/// ```
/// let discipline = linux::adjtimex::read()?;
/// assert!((9_000..=11_000).contains(&discipline.tick_us));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The kernel's: a seccomp filter forbids the call.
pub fn read() -> io::Result<KernelDiscipline> {
    let (state, timex) = call(nothing())?;
    Ok(KernelDiscipline {
        state,
        offset: timex.offset,
        frequency: timex.freq,
        max_error_us: timex.maxerror,
        estimated_error_us: timex.esterror,
        status: timex.status,
        tick_us: timex.tick,
        tai_s: timex.tai,
    })
}

/// ADJ_SETOFFSET: adds `by_us` to CLOCK_REALTIME at once. Nanoseconds would
/// need ADJ_NANO, which sets STA_NANO for good and so changes the unit in
/// which others read and write the kernel's offset
/// (`process_adjtimex_modes`, kernel/time/ntp.c).
///
/// # Errors
/// The kernel's: not permitted, or a time that the clock cannot show.
pub fn set_offset(by_us: i64) -> io::Result<()> {
    call(offset_request(by_us)).map(drop)
}

/// ADJ_OFFSET_SINGLESHOT: the kernel gains or loses `by_us` at 500 µs a
/// second, in place of what is left of the last slew; 0 ends that. In
/// microseconds, whatever STA_NANO is.
///
/// # Errors
/// The kernel's: not permitted.
pub fn slew(by_us: i64) -> io::Result<()> {
    call(slew_request(by_us)).map(drop)
}

/// ADJ_MAXERROR, ADJ_ESTERROR, and STA_UNSYNC cleared: what a daemon that has
/// just measured the clock reports of it. The kernel adds 500 µs to the largest
/// error each second, and at 16 s sets STA_UNSYNC again (`second_overflow`,
/// kernel/time/ntp.c). The other bits of the status stay.
///
/// # Errors
/// The kernel's: not permitted.
pub fn set_error(max_error_us: i64, estimated_error_us: i64) -> io::Result<()> {
    let status = read()?.status;
    call(error_request(max_error_us, estimated_error_us, status)).map(drop)
}

/// ADJ_ESTERROR, and ADJ_MAXERROR where that is known: what the clock is off
/// by; its status stays.
///
/// # Errors
/// The kernel's: not permitted.
pub fn set_figures(max_error_us: Option<i64>, estimated_error_us: i64) -> io::Result<()> {
    let mut request = nothing();
    request.modes = libc::ADJ_ESTERROR;
    request.esterror = estimated_error_us;
    if let Some(max_error_us) = max_error_us {
        request.modes |= libc::ADJ_MAXERROR;
        request.maxerror = max_error_us;
    }
    call(request).map(drop)
}

/// ADJ_FREQUENCY: the frequency correction, in 2^-16 ppm; the kernel limits it
/// to 500 ppm.
///
/// # Errors
/// The kernel's: not permitted.
pub fn set_frequency(frequency: i64) -> io::Result<()> {
    call(frequency_request(frequency)).map(drop)
}

pub(crate) fn frequency_request(frequency: i64) -> timex {
    let mut request = nothing();
    request.modes = libc::ADJ_FREQUENCY;
    request.freq = frequency;
    request
}

/// Length of a tick that is not steered by, µs: of the kernel's interface, whatever its
/// own HZ is (USER_HZ, include/linux/timex.h).
pub const TICK_US: i64 = 10_000;

/// ADJ_TICK and ADJ_FREQUENCY together: the tick as the kernel begins with it, and this
/// frequency.
///
/// # Errors
/// The kernel's: not permitted.
pub fn reset_tick(frequency: i64) -> io::Result<()> {
    call(tick_request(frequency)).map(drop)
}

/// Whether the kernel would let this process change anything, by a change that it refuses after
/// it has checked the permission: a tick of no length (`timekeeping_validate_timex`,
/// kernel/time/timekeeping.c).
///
/// # Errors
/// A seccomp filter's, whichever it answers with.
pub fn check_permission() -> io::Result<()> {
    let mut request = nothing();
    request.modes = libc::ADJ_TICK;
    match call(request) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn tick_request(frequency: i64) -> timex {
    let mut request = frequency_request(frequency);
    request.modes |= libc::ADJ_TICK;
    request.tick = TICK_US;
    request
}

/// STA_INS or STA_DEL, or neither: the leap second at the end of the UTC day that the clock
/// shows. The other bits of the status stay.
///
/// A kernel whose clock was stepped has the bit still, and no second for it (`ntp_clear`); it
/// takes another only once a second has begun without the bit, or as STA_PLL is cleared
/// (`process_adj_status`, kernel/time/ntp.c). So that is set and cleared first. The unit of the
/// offset, which that forgets, is set again; a PLL that is in use counts its next interval from
/// then, and what a PPS signal calibrated begins anew.
///
/// # Errors
/// The kernel's: not permitted.
pub fn set_leap(leap: Option<LeapSecond>) -> io::Result<()> {
    leap_requests(leap, read()?.status).into_iter().try_for_each(|request| call(request).map(drop))
}

pub(crate) fn leap_requests(leap: Option<LeapSecond>, status: i32) -> [timex; 3] {
    let others = status & !(libc::STA_INS | libc::STA_DEL);
    let bits = match leap {
        Some(LeapSecond::Inserted) => libc::STA_INS,
        Some(LeapSecond::Deleted) => libc::STA_DEL,
        None => 0,
    };
    // STA_NANO is none of the bits that a status sets.
    let unit = if status & libc::STA_NANO == 0 { 0 } else { libc::ADJ_NANO };
    [others | libc::STA_PLL, others & !libc::STA_PLL, others | bits].map(|status| {
        let mut request = nothing();
        request.modes = libc::ADJ_STATUS | unit;
        request.status = status;
        request
    })
}

pub(crate) fn error_request(max_error_us: i64, estimated_error_us: i64, status: i32) -> timex {
    let mut request = nothing();
    request.modes = libc::ADJ_MAXERROR | libc::ADJ_ESTERROR | libc::ADJ_STATUS;
    (request.maxerror, request.esterror) = (max_error_us, estimated_error_us);
    request.status = status & !libc::STA_UNSYNC;
    request
}

pub(crate) fn offset_request(by_us: i64) -> timex {
    let mut request = nothing();
    request.modes = libc::ADJ_SETOFFSET;
    // Back by 1 µs is back by 1 s and forward by 999 999 µs.
    request.time.tv_sec = by_us.div_euclid(1_000_000);
    request.time.tv_usec = by_us.rem_euclid(1_000_000);
    request
}

pub(crate) fn slew_request(by_us: i64) -> timex {
    let mut request = nothing();
    request.modes = libc::ADJ_OFFSET_SINGLESHOT;
    request.offset = by_us;
    request
}

fn call(mut request: timex) -> io::Result<(i32, timex)> {
    // SAFETY: invariant 1.
    let state = unsafe { libc::adjtimex(&raw mut request) };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok((state, request)) }
}

fn nothing() -> timex {
    // SAFETY: invariant 1: integers alone.
    unsafe { std::mem::zeroed() }
}
