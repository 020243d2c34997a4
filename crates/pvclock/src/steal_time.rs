//! KVM's steal time page: how long this vCPU was ready to run and did not.
//!
//! ```text
//!  0              8         12      16          17                    64
//! | steal ns      | version | flags | preempted | padding             |
//! ```
//!
//! `preempted` lies outside the version protocol: the host sets it when it
//! takes the vCPU off its CPU, which is not an update of the steal time.

use core::mem::{offset_of, size_of};

use crate::sequence::{self, DEFAULT_TRIES, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, ReadError};

const PREEMPTED: u32 = 1;
const FLUSH_TLB: u32 = 2;

/// The steal time page of one vCPU: 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct StealPage<M: Memory = Aligned> {
    steal: M::U64,
    version: M::U32,
    flags: M::U32,
    /// Byte 0 preempted, bytes 1 to 3 padding.
    preempted: M::U32,
    padding: [M::U32; 11],
}

const _: () = {
    assert!(size_of::<StealPage>() == 64);
    assert!(offset_of!(StealPage, steal) == 0);
    assert!(offset_of!(StealPage, version) == 8);
    assert!(offset_of!(StealPage, flags) == 12);
    assert!(offset_of!(StealPage, preempted) == 16);
};

impl<M: Memory> StealPage<M> {
    /// A page of our own, not yet written.
    pub fn new() -> Self {
        Self {
            steal: M::U64::new(0),
            version: M::U32::new(0),
            flags: M::U32::new(0),
            preempted: M::U32::new(0),
            padding: core::array::from_fn(|_| M::U32::new(0)),
        }
    }

    /// A page of our own that holds these bytes, copied between two updates.
    pub fn from_bytes(bytes: &[u8; 64]) -> Self {
        let [steal, version_and_flags, preempted] = crate::shared::words(bytes);
        Self {
            steal: M::U64::new(steal),
            version: M::U32::new(version_and_flags as u32),
            flags: M::U32::new((version_and_flags >> 32) as u32),
            preempted: M::U32::new(preempted as u32),
            ..Self::new()
        }
    }
}

impl<M: Memory> Default for StealPage<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// The page's contents, taken as one whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StealInfo {
    /// Even; grows by two an update.
    pub version: u32,
    /// Time stolen since the page was registered.
    pub steal: Nanos,
    /// No flag is defined.
    pub flags: u32,
    /// The vCPU is off its CPU now.
    pub preempted: bool,
    /// The guest requests a flush of the TLB before the vCPU runs again.
    pub flush_tlb: bool,
}

/// Reads a steal time page.
#[derive(Debug, Clone, Copy)]
pub struct StealReader<'p, M: Memory = Aligned> {
    page: &'p StealPage<M>,
    tries: u32,
}

impl<'p, M: Memory> StealReader<'p, M> {
    /// A reader of `page`.
    pub const fn new(page: &'p StealPage<M>) -> Self {
        Self { page, tries: DEFAULT_TRIES }
    }

    /// Gives up after `tries` tries instead of [`DEFAULT_TRIES`].
    #[must_use]
    pub const fn with_tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// The page's contents.
    ///
    /// # Errors
    /// [`ReadError::NeverFinished`].
    ///
    /// ```
    /// use pvclock::Nanos;
    /// use pvclock::shared::Aligned;
    /// use pvclock::steal_time::{StealPage, StealReader, StealWriter};
    /// let page = StealPage::<Aligned>::new();
    /// StealWriter::new(&page).write(Nanos(1_500));
    /// assert_eq!(StealReader::new(&page).read()?.steal, Nanos(1_500));
    /// # Ok::<(), pvclock::ReadError>(())
    /// ```
    pub fn read(&self) -> Result<StealInfo, ReadError> {
        let page = self.page;
        let (version, (steal, flags, preempted)) =
            sequence::read::<M, OddWhileWriting, _>(&page.version, self.tries, || {
                (page.steal.load(), page.flags.load(), page.preempted.load())
            })?;
        Ok(StealInfo {
            version,
            steal: Nanos(steal),
            flags,
            preempted: preempted & PREEMPTED != 0,
            flush_tlb: preempted & FLUSH_TLB != 0,
        })
    }
}

/// Writes a steal time page.
#[derive(Debug)]
pub struct StealWriter<'p, M: Memory = Aligned> {
    page: &'p StealPage<M>,
}

impl<'p, M: Memory> StealWriter<'p, M> {
    /// A writer of `page`, whatever that holds.
    pub const fn new(page: &'p StealPage<M>) -> Self {
        Self { page }
    }

    /// Writes how much was stolen so far; the vCPU is about to run. Returns
    /// whether the guest requested a flush of the TLB first, which it does in
    /// place of an interrupt to a vCPU that it saw preempted.
    pub fn write(&mut self, steal: Nanos) -> bool {
        let page = self.page;
        // In one step: the guest sets the bit while it sees us preempted.
        let requested = page.preempted.fetch_and(0);
        sequence::write::<M, OddWhileWriting>(&page.version, page.version.load(), || {
            page.steal.store(steal.0);
            page.flags.store(0);
        });
        requested & FLUSH_TLB != 0
    }

    /// Marks the vCPU as just taken off its CPU.
    pub fn set_preempted(&mut self) {
        self.page.preempted.store(PREEMPTED);
    }
}
