//! Processes that are forked while other threads read, stopped and continued.
//!
//! # Invariants of the unsafe code
//! 1. A child calls nothing that allocates or waits for another thread, and
//!    leaves by `_exit`.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clock::{Clock, Settings, Source};

use crate::common::{MICROSECOND, on_tsc, outside_ns, read_ns};

/// How a child ends.
const WELL: i32 = 0;
const WENT_BACK: i32 = 1;
const FARTHER: i32 = 2;
const NOT_ON_TSC: i32 = 3;
const NEVER_STOPPED: i32 = 4;

/// Forks; the child runs `inside` and ends with what it returns.
fn child(inside: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the child keeps to invariant 1.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let code = inside();
        // SAFETY: the child ends here, and nothing of the parent's is run.
        unsafe { libc::_exit(code) };
    }
    child
}

fn code_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the status is a live local, the child our own.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child ended by a signal: {status:#x}");
    libc::WEXITSTATUS(status)
}

fn signal(child: libc::pid_t, number: libc::c_int) {
    // SAFETY: a signal to a child that has not been reaped.
    assert_eq!(unsafe { libc::kill(child, number) }, 0);
}

/// How far a read is outside the system's around it, less the clock's own error:
/// its last comparison may have been interrupted.
fn farther_ns(clock: &Clock) -> u64 {
    let before = read_ns(libc::CLOCK_MONOTONIC);
    let ns = clock.now_ordered().as_nanos();
    let outside = outside_ns(before, ns, read_ns(libc::CLOCK_MONOTONIC));
    outside.saturating_sub(clock.status().tracking.as_nanos() as u64)
}

/// One thread holds the maintaining state much of the time, so many children are
/// forked while it is held, with no thread to release it; another publishes
/// often.
#[test]
fn a_child_reads_the_time_by_the_tsc_whenever_it_was_forked() {
    const SETTINGS: Settings = Settings { segment: Duration::from_millis(1), ..Settings::DEFAULT };
    static CLOCK: Clock = Clock::with_settings(&SETTINGS);
    if on_tsc(&CLOCK).is_none() {
        return;
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                CLOCK.status();
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                CLOCK.maintain();
            }
        });
        let codes: Vec<i32> = (0..50)
            .map(|_| {
                let last = CLOCK.now_ordered();
                code_of(child(|| if CLOCK.now_ordered() < last { WENT_BACK } else { settle() }))
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(codes.iter().all(|&code| code == WELL), "{codes:?}");
    });

    fn settle() -> i32 {
        let end = read_ns(libc::CLOCK_MONOTONIC) + 20_000_000_000;
        while !matches!(CLOCK.status().source, Source::Tsc { .. }) {
            CLOCK.now();
            if read_ns(libc::CLOCK_MONOTONIC) > end {
                return NOT_ON_TSC;
            }
        }
        if (0..1_000).all(|_| farther_ns(&CLOCK) <= MICROSECOND) { WELL } else { FARTHER }
    }
}

/// The first read of a process that stood still for many segments is the
/// system's time already.
#[test]
fn a_process_that_was_stopped_is_right_with_its_first_read() {
    static CLOCK: Clock = Clock::new();
    const STOPPED: Duration = Duration::from_secs(3);
    if on_tsc(&CLOCK).is_none() {
        return;
    }
    let reader = child(|| {
        let end = read_ns(libc::CLOCK_MONOTONIC) + 60_000_000_000;
        let mut last = read_ns(libc::CLOCK_MONOTONIC);
        loop {
            let farther = farther_ns(&CLOCK);
            let now = read_ns(libc::CLOCK_MONOTONIC);
            if farther > MICROSECOND {
                return FARTHER;
            }
            if now - last > STOPPED.as_nanos() as u64 / 2 {
                let right = (0..10_000).all(|_| farther_ns(&CLOCK) <= MICROSECOND);
                return if right { WELL } else { FARTHER };
            }
            if now > end {
                return NEVER_STOPPED;
            }
            last = now;
        }
    });
    thread::sleep(Duration::from_millis(300));
    signal(reader, libc::SIGSTOP);
    thread::sleep(STOPPED);
    signal(reader, libc::SIGCONT);
    assert_eq!(code_of(reader), WELL);
}
