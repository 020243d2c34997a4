//! The ways a program reads the time, each as a call to time and count.
//!
//! # Invariants
//! 1. `clock_gettime`, `gettimeofday` and `time` write at most one structure
//!    to the pointer they are given and keep nothing; ours is a live local,
//!    or null where that is allowed.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};

/// One way to read the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// The CPU's counter: RDTSC; on arm64 CNTVCT_EL0.
    Counter,
    /// The counter behind a fence, not before earlier loads.
    FencedCounter,
    /// The counter by an instruction that orders itself: RDTSCP, CNTVCTSS_EL0.
    SelfOrderedCounter,
    /// `std::time::Instant::now()`.
    Instant,
    /// `gettimeofday` of libc.
    Gettimeofday,
    /// `time` of libc.
    Time,
    /// `clock_gettime` of libc.
    ClockGettime(LinuxClock),
}

impl Call {
    /// Every call that works here.
    pub fn all() -> Vec<Self> {
        let mut calls = Vec::new();
        if counter::is_readable() {
            calls.extend([Self::Counter, Self::FencedCounter]);
            calls.extend(counter::is_self_ordered().then_some(Self::SelfOrderedCounter));
        }
        calls.extend([Self::Instant, Self::Gettimeofday, Self::Time]);
        let known = LinuxClock::ALL.iter().copied().filter(|clock| clock.read_ns().is_some());
        calls.extend(known.map(Self::ClockGettime));
        calls
    }

    /// Its name: `clock_gettime(CLOCK_MONOTONIC)`, `rdtsc`.
    pub fn name(self) -> String {
        match self {
            Self::Counter => counter::INSTRUCTIONS[0].into(),
            Self::FencedCounter => counter::INSTRUCTIONS[1].into(),
            Self::SelfOrderedCounter => counter::INSTRUCTIONS[2].into(),
            Self::Instant => "Instant::now".into(),
            Self::Gettimeofday => "gettimeofday".into(),
            Self::Time => "time".into(),
            Self::ClockGettime(clock) => format!("clock_gettime({})", clock.name()),
        }
    }

    /// Whether it is an instruction rather than a call into libc.
    pub fn is_instruction(self) -> bool {
        matches!(self, Self::Counter | Self::FencedCounter | Self::SelfOrderedCounter)
    }

    /// Makes the call `times` times and drops the results.
    pub fn repeat(self, times: u64) {
        match self {
            Self::Counter => each(times, || CpuCounter.read()),
            Self::FencedCounter => each(times, counter::fenced),
            Self::SelfOrderedCounter => each(times, counter::self_ordered),
            Self::Instant => each(times, Instant::now),
            Self::Gettimeofday => each(times, gettimeofday),
            Self::Time => each(times, time),
            // The id known at compile time, as it is in a program.
            Self::ClockGettime(clock) => match clock {
                LinuxClock::Realtime => each(times, || clock_gettime(LinuxClock::Realtime)),
                LinuxClock::Monotonic => each(times, || clock_gettime(LinuxClock::Monotonic)),
                LinuxClock::MonotonicRaw => each(times, || clock_gettime(LinuxClock::MonotonicRaw)),
                LinuxClock::RealtimeCoarse => {
                    each(times, || clock_gettime(LinuxClock::RealtimeCoarse))
                }
                LinuxClock::MonotonicCoarse => {
                    each(times, || clock_gettime(LinuxClock::MonotonicCoarse))
                }
                LinuxClock::Boottime => each(times, || clock_gettime(LinuxClock::Boottime)),
                LinuxClock::Tai => each(times, || clock_gettime(LinuxClock::Tai)),
                LinuxClock::ProcessCputime => {
                    each(times, || clock_gettime(LinuxClock::ProcessCputime))
                }
                LinuxClock::ThreadCputime => {
                    each(times, || clock_gettime(LinuxClock::ThreadCputime))
                }
            },
        }
    }

    /// Makes the call once; the error number it failed with, if any.
    ///
    /// A failed call returns −1 with `errno` set, or, where libc jumps
    /// straight into the vDSO (glibc's `time` and `gettimeofday` on x86), as
    /// the negative error number itself.
    pub(crate) fn errno(self) -> Option<i32> {
        let result = match self {
            Self::Counter | Self::FencedCounter | Self::SelfOrderedCounter => 0,
            Self::Gettimeofday => i64::from(gettimeofday()),
            Self::Time => time(),
            Self::ClockGettime(clock) => i64::from(clock_gettime(clock)),
            // std documents clock_gettime(CLOCK_MONOTONIC) as what Instant
            // calls on Linux, and panics where that fails.
            Self::Instant => i64::from(clock_gettime(LinuxClock::Monotonic)),
        };
        match result {
            0.. => None,
            -1 => std::io::Error::last_os_error().raw_os_error(),
            negative => i32::try_from(-negative).ok(),
        }
    }
}

#[inline(always)]
fn each<T>(times: u64, call: impl Fn() -> T) {
    for _ in 0..times {
        let result = call();
        // By reference: what black_box takes by value is copied out and in,
        // and a wide copy of two narrow stores stalls (4 ns for a timespec).
        black_box(&result);
    }
}

#[inline(always)]
fn clock_gettime(clock: LinuxClock) -> libc::c_int {
    let mut reading = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: invariant 1.
    let result = unsafe { libc::clock_gettime(clock.id(), &raw mut reading) };
    black_box(&reading);
    result
}

#[inline(always)]
fn gettimeofday() -> libc::c_int {
    let mut reading = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: invariant 1; the second argument, a time zone, may be null.
    let result = unsafe { libc::gettimeofday(&raw mut reading, std::ptr::null_mut()) };
    black_box(&reading);
    result
}

#[inline(always)]
fn time() -> i64 {
    // SAFETY: invariant 1; given null, `time` only returns its result.
    unsafe { libc::time(std::ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_works_and_has_its_own_name() {
        let calls = Call::all();
        let mut names: Vec<String> = calls.iter().map(|call| call.name()).collect();
        assert_eq!(names.len(), names.iter().collect::<std::collections::HashSet<_>>().len());
        names.retain(|name| name.starts_with("clock_gettime("));
        assert_eq!(names.len(), LinuxClock::ALL.len());
        for call in calls {
            assert_eq!(call.errno(), None, "{call:?}");
            call.repeat(10);
        }
    }
}
