//! The CPU's counter, where there is one.

use linux::counter::{self, Counter, CpuCounter};

use crate::timeline::steering::Distrust;

/// The counter; the CPU may read it somewhat earlier or later than the
/// instructions around.
#[inline(always)]
pub(crate) fn read() -> u64 {
    CpuCounter.read()
}

/// The counter, read after every earlier load has its value.
#[inline(always)]
pub(crate) fn read_ordered() -> u64 {
    CpuCounter.read_ordered()
}

/// Why the counter must not be used, by CPU and process.
pub(crate) fn distrust() -> Option<Distrust> {
    if !counter::is_readable() {
        Some(Distrust::NoCounter)
    } else if !counter::is_invariant() {
        Some(Distrust::NotInvariant)
    } else {
        None
    }
}
