//! The TSC, where there is one.

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use pvclock::counter::{Counter, Tsc};

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

    /// Whether this CPU has one.
    pub(crate) const fn exists() -> bool {
        true
    }

    /// Whether it counts at one rate in all states of the CPU.
    pub(crate) fn is_invariant() -> bool {
        raw_cpuid::CpuId::new()
            .get_advanced_power_mgmt_info()
            .is_some_and(|power| power.has_invariant_tsc())
    }
}

/// No counter: every read is the system's.
#[cfg(not(target_arch = "x86_64"))]
mod none {
    pub(crate) const fn read() -> u64 {
        0
    }

    pub(crate) const fn read_ordered() -> u64 {
        0
    }

    pub(crate) const fn exists() -> bool {
        false
    }

    pub(crate) const fn is_invariant() -> bool {
        false
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{exists, is_invariant, read, read_ordered};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{exists, is_invariant, read, read_ordered};
