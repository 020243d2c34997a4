//! The virtual counter of arm64's generic timer.
//!
//! # Invariants
//! 1. `getauxval` takes any number, and reads what the kernel gave the process.
#![allow(unsafe_code)]

use std::sync::LazyLock;

use pvclock::counter::Counter;
pub use pvclock::counter::{Cntvct, Cntvctss, frequency};

/// The counter's name for people.
pub const NAME: &str = "CNTVCT";

/// The instructions that read it: without order, behind a fence, and one that
/// orders itself, where [`is_self_ordered`].
pub const INSTRUCTIONS: [&str; 3] = ["mrs cntvct_el0", "isb; mrs cntvct_el0", "mrs cntvctss_el0"];

/// The clock sources that count it.
pub const CLOCKSOURCES: &[&str] = &["arch_sys_counter"];

/// Of the second word of features in the auxiliary vector: CNTVCTSS_EL0 is
/// there (arch/arm64/include/uapi/asm/hwcap.h, `HWCAP2_ECV`).
const HWCAP2_ECV: libc::c_ulong = 1 << 19;

static SELF_SYNCHRONISED: LazyLock<bool> = LazyLock::new(|| {
    // rustix asks through a weak symbol, which a static program lacks.
    // SAFETY: invariant 1.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    features & HWCAP2_ECV != 0
});

/// Whether the CPU has CNTVCTSS_EL0, whose read needs no ISB.
pub fn is_self_ordered() -> bool {
    *SELF_SYNCHRONISED
}

/// The counter by CNTVCTSS_EL0.
#[inline(always)]
pub fn self_ordered() -> u64 {
    Cntvctss.read()
}

/// The counter behind an ISB.
#[inline(always)]
pub fn fenced() -> u64 {
    Cntvct.read_ordered()
}

/// The counter counts at one rate in all states of the CPU (Arm Architecture
/// Reference Manual for A-profile, D11.1.2).
pub const fn is_invariant() -> bool {
    true
}

/// The virtual counter, ordered by the cheapest means there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuCounter;

impl Counter for CpuCounter {
    #[inline(always)]
    fn read(&self) -> u64 {
        if is_self_ordered() { Cntvctss.read() } else { Cntvct.read() }
    }

    #[inline(always)]
    fn order(&self) {
        if !is_self_ordered() {
            Cntvct.order();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_counts_at_the_frequency_it_states() {
        let hz = frequency().expect("firmware states it").0 as f64;
        // What lay between the two readings of a pair is its error: of several, the
        // pair that nothing interrupted.
        let bracketed = || {
            let once = |_| {
                let from = std::time::Instant::now();
                let cycles = CpuCounter.read_ordered();
                (from.elapsed(), from, cycles)
            };
            (0..20).map(once).min_by_key(|read| read.0).expect("twenty")
        };
        let (error, started, before) = bracketed();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (other_error, ended, after) = bracketed();
        let counted_s = (after - before) as f64 / hz;
        let passed_s = (ended - started).as_secs_f64();
        // Both clocks count the same oscillator, but for the kernel's correction.
        let error_s = (error + other_error).as_secs_f64() + passed_s * 1e-3;
        assert!((counted_s - passed_s).abs() < error_s, "{counted_s} s of {passed_s} s");
    }

    #[test]
    fn both_ordered_reads_are_of_one_counter() {
        if !is_self_ordered() {
            return crate::cpus::skipped("this CPU has no FEAT_ECV");
        }
        let reads = [Cntvct.read_ordered(), Cntvctss.read(), Cntvct.read_ordered()];
        assert!(reads.is_sorted(), "{reads:?}");
    }
}
