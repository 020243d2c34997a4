//! Writing the time page.

use super::page::{Flags, TimePage, pack, unpack};
use crate::sequence::{self, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, Scale};

/// What the host writes at an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeUpdate {
    /// The guest's TSC, in cycles.
    pub tsc_timestamp: u64,
    /// The system time at that TSC.
    pub system_time: Nanos,
    /// The TSC's rate.
    pub scale: Scale,
    /// All pages of the VM are given this very pair, and the TSCs agree.
    pub stable: bool,
}

/// Writes one time page. There must be but one writer a page, and none once
/// the guest has switched the page off.
#[derive(Debug)]
pub struct TimeWriter<'p, M: Memory = Aligned> {
    page: &'p TimePage<M>,
}

impl<'p, M: Memory> TimeWriter<'p, M> {
    /// A writer of `page`, whatever that holds: an odd version is gone past.
    pub const fn new(page: &'p TimePage<M>) -> Self {
        Self { page }
    }

    /// Writes an update. GUEST_STOPPED stays as it is in the page: only
    /// the guest clears it.
    pub fn write(&mut self, update: &TimeUpdate) {
        self.write_with(update, Flags(0));
    }

    /// [`TimeWriter::write`] and [`TimeWriter::set_guest_stopped`] as one
    /// update.
    pub fn write_stopped(&mut self, update: &TimeUpdate) {
        self.write_with(update, Flags::GUEST_STOPPED);
    }

    #[inline]
    fn write_with(&mut self, update: &TimeUpdate, raised: Flags) {
        let page = self.page;
        sequence::write::<M, OddWhileWriting>(&page.version, page.version.load(), || {
            let (_, standing) = unpack(page.shift_and_flags.load());
            let stopped = Flags(standing.0 & Flags::GUEST_STOPPED.0);
            let stable = if update.stable { Flags::TSC_STABLE } else { Flags(0) };
            page.tsc_timestamp.store(update.tsc_timestamp);
            page.system_time.store(update.system_time.0);
            page.tsc_to_system_mul.store(update.scale.mul());
            page.shift_and_flags
                .store(pack(update.scale.shift(), stable.union(stopped).union(raised)));
        });
    }

    /// Informs the guest that it stood still: before it is resumed, and again
    /// after a restore, for the flag lives in the page and an older copy of
    /// the page does not carry it.
    pub fn set_guest_stopped(&mut self) {
        let page = self.page;
        sequence::write::<M, OddWhileWriting>(&page.version, page.version.load(), || {
            let (shift, flags) = unpack(page.shift_and_flags.load());
            page.shift_and_flags.store(pack(shift, flags.union(Flags::GUEST_STOPPED)));
        });
    }
}
