//! The C and C++ interface of crate `clock`: `libclock_c.a` and
//! `include/parachron_clock.h`, which a C programmer reads instead of this
//! page. How to build and link is in the crate's README.md.
//!
//! The header is generated from this crate by cbindgen, comments included:
//! `UPDATE=1 cargo test -p parachron-clock-c header` rewrites it.
//!
//! # Invariants of the unsafe code
//! 1. A pointer to a value of the caller's is null or valid for the call; the
//!    signature is `Option<&mut MaybeUninit<T>>`, as C declares variables
//!    without a value.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use clock::{Distrust, Source};

/// A time of day with its error, ns since 1970.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTime {
    /// The time: what CLOCK_REALTIME shows.
    pub unix_ns: i64,
    /// UTC is not before this, if `bounded`.
    pub earliest_unix_ns: i64,
    /// UTC is not after this, if `bounded`.
    pub latest_unix_ns: i64,
    /// Whether the error has a bound: from a time daemon, or the host.
    pub bounded: bool,
}

/// What the clock counts.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSource {
    /// The TSC.
    Tsc = 0,
    /// The system's clock, while the TSC is measured: 10 ms.
    Measuring = 1,
    /// The system's clock: programs cannot read a TSC here.
    NoCounter = 2,
    /// The system's clock: the CPU does not promise a constant TSC.
    NotInvariant = 3,
    /// The system's clock: the kernel does not count the TSC itself.
    Clocksource = 4,
    /// The system's clock: the TSC disagreed with it repeatedly.
    Disagrees = 5,
}

impl From<Source> for ClockSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Tsc { .. } => Self::Tsc,
            Source::Measuring => Self::Measuring,
            Source::System(Distrust::NoCounter) => Self::NoCounter,
            Source::System(Distrust::NotInvariant) => Self::NotInvariant,
            Source::System(Distrust::Clocksource) => Self::Clocksource,
            Source::System(Distrust::Disagrees) => Self::Disagrees,
        }
    }
}

/// The clock's state.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStatus {
    /// The TSC's frequency as measured, Hz; 0 unless the source is the TSC.
    pub tsc_hz: u64,
    /// How far the clock was from CLOCK_MONOTONIC when last compared, ns.
    pub tracking_ns: u64,
    /// How often TSC and system disagreed, or the host announced that the
    /// machine was restored or migrated.
    pub disruptions: u64,
    /// How often the time of day was set.
    pub realtime_steps: u64,
    /// What the clock counts.
    pub source: ClockSource,
}

/// What CLOCK_MONOTONIC shows, ns. The CPU may read the TSC some 100 cycles
/// earlier or later than the code around the call.
#[unsafe(no_mangle)]
pub extern "C" fn parachron_clock_now() -> u64 {
    clock::shared().now().as_nanos()
}

/// The same, not before anything that this thread has observed of others: for
/// times that threads compare.
#[unsafe(no_mangle)]
pub extern "C" fn parachron_clock_now_ordered() -> u64 {
    clock::shared().now_ordered().as_nanos()
}

/// The time of day. Returns false, and does nothing, if `time` is NULL.
///
/// # Safety
/// `time` is NULL or valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn parachron_clock_time(time: Option<&mut MaybeUninit<ClockTime>>) -> bool {
    let Some(time) = time else { return false };
    let now = clock::SystemTime::now();
    let unix_ns = now.unix_nanos();
    let error_ns = now.error().map(|error| u64::try_from(error.as_nanos()).unwrap_or(u64::MAX));
    time.write(ClockTime {
        unix_ns,
        earliest_unix_ns: unix_ns.saturating_sub_unsigned(error_ns.unwrap_or(u64::MAX)),
        latest_unix_ns: unix_ns.saturating_add_unsigned(error_ns.unwrap_or(u64::MAX)),
        bounded: error_ns.is_some(),
    });
    true
}

/// Maintains the clock if due, so that no read has to, and returns in how many
/// ns to call again: for event loops. In programs that do not call it, one read
/// in 20 ms takes a few us.
#[unsafe(no_mangle)]
pub extern "C" fn parachron_clock_maintain() -> u64 {
    u64::try_from(clock::shared().maintain().as_nanos()).unwrap_or(u64::MAX)
}

/// The clock's state. Returns false, and does nothing, if `status` is NULL.
/// Waits for a thread that is maintaining the clock: not for signal handlers.
///
/// # Safety
/// `status` is NULL or valid for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn parachron_clock_status(
    status: Option<&mut MaybeUninit<ClockStatus>>,
) -> bool {
    let Some(status) = status else { return false };
    let now = clock::shared().status();
    let tsc_hz = if let Source::Tsc { hz } = now.source { hz } else { 0 };
    status.write(ClockStatus {
        tsc_hz,
        tracking_ns: u64::try_from(now.tracking.as_nanos()).unwrap_or(u64::MAX),
        disruptions: now.disruptions,
        realtime_steps: now.realtime_steps,
        source: now.source.into(),
    });
    true
}
