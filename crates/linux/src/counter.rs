//! The CPU's counter that programs may read, and what `pvclock` does not need
//! of it. What a CPU is not known for, it lacks: there [`is_readable`] is false.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unknown;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
pub use pvclock::counter::Counter;
use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use unknown::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// Whether this thread may read the counter; where `prctl(PR_SET_TSC)` forbade
/// it (on arm64 since Linux 6.12), doing so is a SIGSEGV.
pub fn is_readable() -> bool {
    // A kernel without the call does not forbid it.
    !NAME.is_empty()
        && time_stamp_counter_readability()
            .map_or(true, |readability| readability == TimeStampCounterReadability::Readable)
}
