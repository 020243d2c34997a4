//! What the tests on the running kernel share.
#![allow(unsafe_code)]

use std::io::Write;
use std::thread;
use std::time::Duration;

use clock::{Clock, Source};

/// What the clock may be off beyond the reads around it.
pub(crate) const MICROSECOND: u64 = 1_000;

/// One of the system's clocks, as any program reads it, ns.
pub(crate) fn read_ns(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock_gettime` writes the live local and keeps nothing.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far `ns` lies outside of what was read before and after it.
pub(crate) fn outside_ns(before: u64, ns: u64, after: u64) -> u64 {
    before.saturating_sub(ns).max(ns.saturating_sub(after))
}

/// A clock that has measured the TSC; `None`, with a message, where it may not.
pub(crate) fn on_tsc(clock: &Clock) -> Option<u64> {
    for _ in 0..200 {
        clock.now();
        match clock.status().source {
            Source::Tsc { hz } => return Some(hz),
            Source::Measuring => thread::sleep(Duration::from_millis(5)),
            Source::System(why) => {
                // Past the test harness, which would swallow it.
                let _ = writeln!(std::io::stderr(), "skipped: the TSC is not used: {why:?}");
                return None;
            }
        }
    }
    panic!("no rate after a second: {:?}", clock.status());
}
