//! What a C program calls: `clock_gettime` with a constant clock id and nothing around it, and
//! `pvclock`'s C interface, by a call and never in line.
//!
//! # Invariants of the unsafe code
//! 1. `clock_gettime` writes one `timespec` and keeps nothing.
//! 2. The page lives during the call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

use pvclock::kvm_clock::TimePage;
use pvclock_c::abi::kvm_clock::pvclock_kvm_read_ordered;
use pvclock_c::status::PvclockStatus;

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

type Read = unsafe extern "C" fn(*const c_void, Option<&mut MaybeUninit<u64>>) -> PvclockStatus;

/// Nanoseconds by the page, from `pvclock`'s C interface.
#[inline(always)]
pub(crate) fn kvm_read_ordered(page: &TimePage) -> u64 {
    let read: Read = black_box(pvclock_kvm_read_ordered);
    let mut ns = MaybeUninit::new(0);
    // SAFETY: invariant 2.
    let status = unsafe { read(ptr::from_ref(page).cast(), Some(&mut ns)) };
    assert_eq!(status, PvclockStatus::Ok);
    // SAFETY: it had a value before the call.
    unsafe { ns.assume_init() }
}
