//! What the compiler calls for copying and comparing memory; there is no C
//! library here.
//!
//! # Invariants
//! The callers are the compiler's own: they pass what C asks for, and all of
//! them are written without loops that would be turned into calls of
//! themselves.
#![allow(unsafe_code)]

use core::arch::asm;

/// C's memcpy.
///
/// # Safety
/// As C has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// C's memmove.
///
/// # Safety
/// As C has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= count {
        // SAFETY: the caller's promise; a copy forward overwrites nothing
        // that is still to be read.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller's promise; from the last byte down.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") count => _,
            inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// C's memset.
///
/// # Safety
/// As C has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") value as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// C's memcmp.
///
/// # Safety
/// As C has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: the caller's promise.
        let left = unsafe { left.wrapping_add(index).read() };
        // SAFETY: the caller's promise.
        let right = unsafe { right.wrapping_add(index).read() };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

/// As memcmp, but only equal or not.
///
/// # Safety
/// As C has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, count) }
}
