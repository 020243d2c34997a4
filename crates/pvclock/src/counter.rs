//! The counter a page is read against.
//!
//! # Invariants
//! The two instructions used here read a register and touch no memory. Both
//! exist on every x86-64 CPU; RDTSC faults only where the operating system
//! has forbidden it (CR4.TSD, `prctl(PR_SET_TSC)`), and the fault is a signal,
//! not undefined behaviour.
#![allow(unsafe_code)]

/// A free-running counter.
pub trait Counter {
    /// The counter, possibly read before instructions that stand earlier and
    /// after ones that stand later: the CPU reorders it.
    fn read(&self) -> u64;

    /// The counter, read after every earlier load has its value.
    fn read_ordered(&self) -> u64;
}

/// Any function of no arguments is a counter whose reads are all ordered:
/// what tests and simulations use.
impl<F: Fn() -> u64> Counter for F {
    #[inline]
    fn read(&self) -> u64 {
        self()
    }

    #[inline]
    fn read_ordered(&self) -> u64 {
        self()
    }
}

/// The CPU's time stamp counter.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Tsc;

#[cfg(target_arch = "x86_64")]
impl Counter for Tsc {
    #[inline(always)]
    fn read(&self) -> u64 {
        // SAFETY: RDTSC reads a register (invariants above).
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// LFENCE, then RDTSC: Intel SDM vol. 2B, RDTSC; on AMD, LFENCE orders
    /// once Linux has set DE_CFG\[1\] (arch/x86/kernel/cpu/amd.c).
    #[inline(always)]
    fn read_ordered(&self) -> u64 {
        // SAFETY: LFENCE orders loads and has no other effect.
        unsafe { core::arch::x86_64::_mm_lfence() };
        self.read()
    }
}
