//! The time stamp counter of x86-64.
//!
//! # Invariants
//! The two instructions used here read a register and touch no memory. Both
//! exist on every x86-64 CPU; RDTSC faults only where the operating system
//! has forbidden it (CR4.TSD, `prctl(PR_SET_TSC)`), and the fault is a signal,
//! not undefined behaviour.
#![allow(unsafe_code)]

use super::Counter;

/// The CPU's time stamp counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tsc;

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
