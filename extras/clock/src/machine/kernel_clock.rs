//! The kernel's clocks.
//!
//! # Invariants of the unsafe code
//! 1. `clock_gettime` writes one `timespec` and keeps nothing; ours is a live
//!    local.
#![allow(unsafe_code)]

/// CLOCK_MONOTONIC, ns.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).cast_unsigned()
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

#[inline(always)]
fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: invariant 1.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec)
}
