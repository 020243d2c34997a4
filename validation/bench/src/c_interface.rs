//! `pvclock`'s C interface as a C program calls it: by a call, never in line.
//!
//! # Invariants of the unsafe code
//! 1. The page lives during the call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

use pvclock::kvm_clock::TimePage;
use pvclock_c::abi::kvm_clock::pvclock_kvm_read_ordered;
use pvclock_c::status::PvclockStatus;

type Read = unsafe extern "C" fn(*const c_void, Option<&mut MaybeUninit<u64>>) -> PvclockStatus;

/// Nanoseconds by the page.
#[inline(always)]
pub(crate) fn kvm_read_ordered(page: &TimePage) -> u64 {
    let read: Read = black_box(pvclock_kvm_read_ordered);
    let mut ns = MaybeUninit::new(0);
    // SAFETY: invariant 1.
    let status = unsafe { read(ptr::from_ref(page).cast(), Some(&mut ns)) };
    assert_eq!(status, PvclockStatus::Ok);
    // SAFETY: it had a value before the call.
    unsafe { ns.assume_init() }
}
