//! The time stamp counter of x86-64.
//!
//! # Invariants
//! The two instructions used here read a register and touch no memory. Both
//! exist on every x86-64 CPU; RDTSC faults only where the operating system
//! has forbidden it (CR4.TSD, `prctl(PR_SET_TSC)`), and the fault is a signal,
//! not undefined behaviour.
#![allow(unsafe_code)]

use core::arch::asm;

use super::Counter;

/// The CPU's time stamp counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tsc;

impl Counter for Tsc {
    #[inline(always)]
    fn read(&self) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: RDTSC reads a register (invariants above). Not `nomem`: no load
        // may move across it, out of a page's sequence.
        unsafe {
            asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags))
        };
        // A sum and not `|`: of it the compiler can subtract a page's time stamp from
        // the low half while the high one is shifted.
        low.wrapping_add(high << 32)
    }

    /// LFENCE, before RDTSC: Intel SDM vol. 2B, RDTSC; on AMD, LFENCE orders
    /// once Linux has set DE_CFG\[1\] (arch/x86/kernel/cpu/amd.c).
    #[inline(always)]
    fn order(&self) {
        // SAFETY: LFENCE orders loads and has no other effect.
        unsafe { core::arch::x86_64::_mm_lfence() };
    }
}
