//! The virtual counter of arm64's generic timer.
//!
//! # Invariants
//! 1. The instructions used here read a system register and touch no memory.
//!    CNTVCT_EL0 and CNTFRQ_EL0 exist on every ARMv8-A CPU. An operating system
//!    may forbid them to programs (CNTKCTL_EL1.EL0VCTEN); the fault is a signal,
//!    not undefined behaviour. Linux lets programs read them
//!    (drivers/clocksource/arm_arch_timer.c, `arch_counter_set_user_access`),
//!    or emulates the read.
//! 2. CNTVCTSS_EL0 is there with FEAT_ECV alone; elsewhere reading it is an
//!    undefined instruction: a signal too.
#![allow(unsafe_code)]

use core::arch::asm;

use super::Counter;
use crate::Hertz;

/// The virtual counter, CNTVCT_EL0: the physical one less the offset that a
/// hypervisor sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cntvct;

impl Counter for Cntvct {
    #[inline(always)]
    fn read(&self) -> u64 {
        let count;
        // SAFETY: invariant 1. Not `pure`, nor `nomem`: two reads differ, and
        // none may move across a fence of a page's sequence.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
        count
    }

    /// ISB, before the counter: Arm Architecture Reference Manual for A-profile,
    /// D11.2.2 (a read may be speculated; a context synchronisation event ends
    /// that).
    #[inline(always)]
    fn order(&self) {
        // SAFETY: invariant 1; ISB waits, and has no other effect.
        unsafe { asm!("isb", options(nostack, preserves_flags)) };
    }
}

/// The virtual counter by CNTVCTSS_EL0, whose read is never speculated: ordered
/// without ISB. Only for CPUs with FEAT_ECV (Linux: `HWCAP2_ECV`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Cntvctss;

impl Counter for Cntvctss {
    #[inline(always)]
    fn read(&self) -> u64 {
        let count;
        // SAFETY: invariant 2. An assembler for the base architecture knows the
        // register by its encoding alone.
        unsafe { asm!("mrs {}, s3_3_c14_c0_6", out(reg) count, options(nostack, preserves_flags)) };
        count
    }

    #[inline(always)]
    fn order(&self) {}
}

/// The counter's frequency as firmware or the hypervisor states it, CNTFRQ_EL0;
/// hardware does not check it, and a forgetful firmware leaves 0.
pub fn frequency() -> Option<Hertz> {
    let hz: u64;
    // SAFETY: invariant 1.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nostack, preserves_flags)) };
    // The upper half is reserved.
    let hz = hz & u64::from(u32::MAX);
    (hz != 0).then_some(Hertz(hz))
}
