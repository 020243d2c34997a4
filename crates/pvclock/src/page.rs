//! Memory at an address, taken for a page.
//!
//! # Invariants of the unsafe code
//! 1. A type is a [`Page`] only if it is `repr(C)`, made of atomic words
//!    alone and free of implicit padding: any bytes are a valid value of it,
//!    and all access to it through `&` is atomic.
//! 2. [`page_at`] returns a `&` only to an address that is aligned for the
//!    page; that the memory is there and stays is the caller's promise.
#![allow(unsafe_code)]

use crate::shared::{Aligned, Split};
use crate::{PageError, clockbound, hyperv, kvm_clock, steal_time, vmclock, vvar};

/// A page layout that memory at an address may be taken for.
///
/// # Safety
/// Invariant 1 of this module.
pub unsafe trait Page: Sized {}

// SAFETY: repr(C), atomic words only, no padding: the sizes asserted next to
// each layout equal the sums of its fields.
unsafe impl Page for kvm_clock::TimePage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for kvm_clock::TimePage<Split> {}
// SAFETY: as above.
unsafe impl Page for kvm_clock::WallClockPage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for kvm_clock::WallClockPage<Split> {}
// SAFETY: as above.
unsafe impl Page for hyperv::ReferencePage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for hyperv::ReferencePage<Split> {}
// SAFETY: as above.
unsafe impl Page for vmclock::VmClockPage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for vmclock::VmClockPage<Split> {}
// SAFETY: as above.
unsafe impl Page for clockbound::SegmentPage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for steal_time::StealPage<Aligned> {}
// SAFETY: as above.
unsafe impl Page for steal_time::StealPage<Split> {}
// SAFETY: as above.
unsafe impl Page for vvar::VvarClock<Aligned> {}

/// The page at `address`.
///
/// ```
/// use pvclock::kvm_clock::{TimePage, TimeReader};
/// use pvclock::{ReadError, shared};
///
/// let mut memory = [0u64; 4];
/// // SAFETY: `memory` is 32 bytes, and outlives the page.
/// let page: &TimePage = unsafe { shared::page_at(memory.as_mut_ptr().cast()) }?;
/// assert_eq!(TimeReader::new(page).nanos(&|| 1), Err(ReadError::SwitchedOff { version: 0 }));
/// # Ok::<(), pvclock::PageError>(())
/// ```
///
/// # Errors
/// The address is not aligned for `P`.
///
/// # Safety
/// `size_of::<P>()` bytes at `address` are mapped readable for all of `'a`
/// (writable too, if a writer or
/// [`take_guest_stopped`](kvm_clock::TimeReader::take_guest_stopped) is to
/// use them), and this process accesses them only by atomics of the same sizes.
pub unsafe fn page_at<'a, P: Page>(address: *mut u8) -> Result<&'a P, PageError> {
    let align = align_of::<P>();
    if address.is_null() || !address.addr().is_multiple_of(align) {
        return Err(PageError::Misaligned { address: address.addr(), align });
    }
    // SAFETY: aligned and not null (checked), any bytes are a `P` (invariant
    // 1), mapped and accessed by atomics only (the caller's promise).
    Ok(unsafe { &*address.cast::<P>() })
}
