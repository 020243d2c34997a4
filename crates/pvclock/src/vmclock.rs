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
mod writer;

pub use page::{
    CounterId, LAYOUT_VERSION, MAGIC, TimeType, VmClockFlags, VmClockInfo, VmClockPage,
    VmClockStatus,
};
pub use reader::{VmClockNow, VmClockReader, VmClockTime};
pub use utc::{NoUtc, Utc};
pub use writer::VmClockWriter;
