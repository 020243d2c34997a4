//! The TSC, where there is one.

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use linux::counter::{self, Counter, Tsc};

    use crate::timeline::steering::Distrust;

    /// The TSC; the CPU may read it somewhat earlier or later than the
    /// instructions around.
    #[inline(always)]
    pub(crate) fn read() -> u64 {
        Tsc.read()
    }

    /// The TSC, read after every earlier load has its value.
    #[inline(always)]
    pub(crate) fn read_ordered() -> u64 {
        Tsc.read_ordered()
    }

    /// Why the TSC must not be used, by CPU and process.
    pub(crate) fn distrust() -> Option<Distrust> {
        if !counter::is_readable() {
            Some(Distrust::NoCounter)
        } else if !counter::is_invariant() {
            Some(Distrust::NotInvariant)
        } else {
            None
        }
    }
}

/// No counter: every read is the system's.
#[cfg(not(target_arch = "x86_64"))]
mod none {
    use crate::timeline::steering::Distrust;

    pub(crate) const fn read() -> u64 {
        0
    }

    pub(crate) const fn read_ordered() -> u64 {
        0
    }

    pub(crate) const fn distrust() -> Option<Distrust> {
        Some(Distrust::NoCounter)
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{distrust, read, read_ordered};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{distrust, read, read_ordered};
