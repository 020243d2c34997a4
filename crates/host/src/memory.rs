//! The guest's memory, where the clock pages are.

use pvclock::shared::Page;

/// A guest physical address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockAddress(pub u64);

/// Why there is no page at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misplaced {
    /// Not guest memory, wholly or in part.
    #[error("{length} bytes at guest address {address:#x} are not all memory")]
    Outside {
        /// The requested address.
        address: u64,
        /// The page's size.
        length: usize,
    },
    /// Not aligned for the page.
    #[error("guest address {address:#x} is not aligned to {alignment} bytes")]
    Unaligned {
        /// The requested address.
        address: u64,
        /// The alignment that the page needs.
        alignment: usize,
    },
}

/// Guest memory, which the guest reads and writes at the same time. A VMM
/// implements this over its mapping; [`PlainMemory`](crate::PlainMemory) is
/// one for tests. [`pages`](crate::pages) lists which types are asked for, and why
/// those.
///
/// A VMM that logs which memory is dirty (KVM_GET_DIRTY_LOG, vm-memory's bitmap)
/// implements [`written`](Self::written): stores through a page are not seen by
/// either, so that a live migration would send a stale clock.
///
/// ```
/// use pvclock_host::{ClockAddress, ClockMemory, Misplaced};
/// use pvclock::shared::Page;
///
/// /// A guest without memory.
/// struct Nothing;
///
/// impl ClockMemory for Nothing {
///     fn page<P: Page>(&self, address: ClockAddress) -> Result<&P, Misplaced> {
///         Err(Misplaced::Outside { address: address.0, length: size_of::<P>() })
///     }
/// }
/// ```
pub trait ClockMemory {
    /// The page of type `P` at `address`.
    ///
    /// # Errors
    /// [`Misplaced`], for any address that is not wholly inside.
    fn page<P: Page + 'static>(&self, address: ClockAddress) -> Result<&P, Misplaced>;

    /// These bytes were just written by the host: mark them dirty. Called after each
    /// write, and not for those that only read.
    fn written(&self, address: ClockAddress, length: usize) {
        let _ = (address, length);
    }
}
