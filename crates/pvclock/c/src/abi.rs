//! The functions of the header.
//!
//! # Invariants
//! 1. A page's address is null, or `size_of` its kind mapped bytes that stay
//!    mapped during the call, writable where the function writes; this
//!    process accesses them only by atomics: the header's "Pages", which
//!    each function's Safety section makes the caller promise. It becomes a
//!    reference in `page` and `kvm_clock::read_now` alone, which check null and alignment.
//! 2. A pointer to a value of the caller's is null or good for the call; the
//!    signature has `Option<&T>`. What is written through is
//!    `MaybeUninit`, for C declares variables without a value.
//! 3. No function panics: there is no path to one, which a test shows by
//!    linking the library without the C library that panicking needs.
#![allow(unsafe_code)]

// In the header's order, which rustfmt would otherwise make alphabetical.
pub mod kvm_clock;

pub mod hyperv;

pub mod vmclock;

pub mod steal_time;

pub mod scale;

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

use pvclock::shared::{self, Page};

use crate::status::{self, PvclockStatus};

/// The meaning of a status in English, without a full stop; never NULL.
/// Numbers that are no status have a text too.
#[unsafe(no_mangle)]
pub extern "C" fn pvclock_status_text(status: i32) -> *const c_char {
    status::text(status).as_ptr()
}

/// The page at `address`.
///
/// # Safety
/// Invariant 1.
unsafe fn page<'a, P: Page>(address: *const c_void) -> Result<&'a P, PvclockStatus> {
    if address.is_null() {
        return Err(PvclockStatus::NullPointer);
    }
    // SAFETY: mapped and accessed by atomics only (invariant 1). A page that
    // came as `const` is only ever loaded from, which `cast_mut` leaves so.
    Ok(unsafe { shared::page_at(address.cast_mut().cast()) }?)
}

/// `$action` on the kvm-clock page at `$address`: the MSR takes any multiple of 4, and at
/// an odd one the 64-bit fields are read in halves, out of the way of the usual case.
macro_rules! on_time_page {
    ($address:expr, $page:ident => $action:expr) => {{
        let address = $address;
        if address.addr() % 8 == 4 {
            #[cold]
            #[inline(never)]
            fn unusual<T>(action: impl FnOnce() -> T) -> T {
                action()
            }
            unusual(|| {
                // SAFETY: invariant 1 is the caller's promise.
                unsafe { $crate::abi::page::<TimePage<Split>>(address) }.and_then(|$page| $action)
            })
        } else {
            // SAFETY: as above.
            unsafe { $crate::abi::page::<TimePage>(address) }.and_then(|$page| $action)
        }
    }};
}
use on_time_page;

/// Computes the result, unless there is no place for it, and puts it there.
fn put<T>(
    out: Option<&mut MaybeUninit<T>>,
    compute: impl FnOnce() -> Result<T, PvclockStatus>,
) -> PvclockStatus {
    let Some(out) = out else {
        return PvclockStatus::NullPointer;
    };
    match compute() {
        Ok(value) => {
            out.write(value);
            PvclockStatus::Ok
        }
        Err(status) => status,
    }
}

/// The status of a call that has no other result.
fn status(result: Result<(), PvclockStatus>) -> PvclockStatus {
    result.err().unwrap_or(PvclockStatus::Ok)
}
