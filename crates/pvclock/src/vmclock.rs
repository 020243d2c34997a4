//! VMClock: a page that gives a guest, and its user space, the precise real
//! time with error bounds, and announces that it was migrated or restored
//! (include/uapi/linux/vmclock-abi.h; ACPI device "VMCLOCK").
//!
//! ```text
//! time = time_sec.time_frac + (counter − counter_value) · period
//! ```
//!
//! with the fraction in units of 2^−64 s and the period in 2^−(64+shift) s.
//! A reader that keeps calibrations of its own watches
//! [`VmClockInfo::disruption_marker`]: another value means that the counter
//! was disrupted, and old calibrations are void.

mod page;
mod reader;
mod utc;

use crate::sequence::{self, OddWhileWriting};
use crate::shared::{Aligned, Memory, Word};

pub use page::{
    CounterId, LAYOUT_VERSION, MAGIC, TimeType, VmClockFlags, VmClockInfo, VmClockPage,
    VmClockStatus,
};
pub use reader::{VmClockNow, VmClockReader, VmClockTime};
pub use utc::{NoUtc, Utc};

/// Writes a VMClock page. There must be but one writer a page.
#[derive(Debug)]
pub struct VmClockWriter<'p, M: Memory = Aligned> {
    page: &'p VmClockPage<M>,
}

impl<'p, M: Memory> VmClockWriter<'p, M> {
    /// A writer of a page made by [`VmClockPage::from_info`], whatever state
    /// its sequence count was left in.
    pub const fn new(page: &'p VmClockPage<M>) -> Self {
        Self { page }
    }

    /// Writes all that may change. Magic, size and layout version stay, and
    /// `info.seq_count` is not looked at: the page's own continues.
    pub fn write(&mut self, info: &VmClockInfo) {
        let page = self.page;
        sequence::write::<M, OddWhileWriting>(&page.seq_count, page.seq_count.load(), || {
            page.identity.store(info.identity_word());
            page.disruption_marker.store(info.disruption_marker);
            page.flags.store(info.flags.0);
            page.status.store(info.status_word());
            page.leap_and_shift.store(info.leap_word());
            page.counter_value.store(info.counter_value);
            page.period.store(info.period);
            page.period_est_error.store(info.period_est_error);
            page.period_max_error.store(info.period_max_error);
            page.time_sec.store(info.time_sec);
            page.time_frac.store(info.time_frac);
            page.time_est_error_ns.store(info.time_est_error.0);
            page.time_max_error_ns.store(info.time_max_error.0);
            page.vm_generation.store(info.vm_generation);
        });
    }
}
