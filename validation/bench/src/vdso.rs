//! `clock_gettime` as a C program calls it: a constant clock id, nothing
//! around it.
//!
//! # Invariants of the unsafe code
//! 1. `clock_gettime` writes one `timespec` and keeps nothing.
#![allow(unsafe_code)]

/// CLOCK_MONOTONIC in nanoseconds, as our own reads return it. (Returning the
/// structure would load 16 bytes where the vDSO has just stored twice 8: a stall
/// that programs can avoid.)
#[inline(always)]
pub(crate) fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: invariant 1; `now` is a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
