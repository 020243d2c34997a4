//! Clock pages in guest memory of crate vm-memory.
//!
//! # Invariants
//! 1. vm-memory has checked that a slice lies wholly inside its mapping, which stays while the
//!    memory is borrowed.
#![allow(unsafe_code)]

use pvclock::shared::{self, Page};
use pvclock_host::{ClockAddress, ClockMemory, Misplaced};
use vm_memory::bitmap::Bitmap as _;
use vm_memory::{GuestAddress, GuestMemoryBackend};

/// Guest memory of vm-memory, for [`GuestClock`](pvclock_host::GuestClock). What is written is
/// marked in its bitmap of dirty memory.
///
/// The rest of the VMM accesses a page that it handed out by atomic words of 32 bits alone, if at
/// all: see [`pvclock_host::pages`].
#[derive(Debug, Clone, Copy)]
pub struct MappedMemory<'m, M>(pub &'m M);

impl<M: GuestMemoryBackend> ClockMemory for MappedMemory<'_, M> {
    fn page<P: Page + 'static>(&self, address: ClockAddress) -> Result<&P, Misplaced> {
        let (address, length) = (address.0, size_of::<P>());
        let slice = self.0.get_slice(GuestAddress(address), length);
        let slice = slice.map_err(|_| Misplaced::Outside { address, length })?;
        // SAFETY: `length` bytes inside the mapping, which outlives the borrow (invariant 1).
        unsafe { shared::page_at(slice.ptr_guard_mut().as_ptr()) }
            .map_err(|_| Misplaced::Unaligned { address, alignment: align_of::<P>() })
    }

    fn written(&self, address: ClockAddress, length: usize) {
        if let Ok(slice) = self.0.get_slice(GuestAddress(address.0), length) {
            slice.bitmap().mark_dirty(0, length);
        }
    }
}
