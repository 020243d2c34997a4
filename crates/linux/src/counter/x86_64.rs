//! The CPU's time stamp counter: what `pvclock` does not need of it.
//!
//! # Invariants
//! 1. RDTSCP reads registers; through its argument it writes one `u32`, here
//!    a live local. x86-64 CPUs before 2008 lack it: callers check
//!    [`has_rdtscp`] once before use.
#![allow(unsafe_code)]

use pvclock::counter::Counter as _;
pub use pvclock::counter::{CpuCounter, Tsc};
use pvclock::units::Hertz;

/// The counter's name for people.
pub const NAME: &str = "TSC";

/// The instructions that read it: without order, behind a fence, and one that
/// orders itself, where [`is_self_ordered`].
pub const INSTRUCTIONS: [&str; 3] = ["rdtsc", "lfence; rdtsc", "rdtscp"];

/// The clock sources that count it.
pub const CLOCKSOURCES: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// What the CPU itself states of the counter's frequency is in CPUID, which
/// other code decodes.
pub const fn frequency() -> Option<Hertz> {
    None
}

/// Whether the TSC counts at one rate in all states of the CPU, by CPUID.
pub fn is_invariant() -> bool {
    raw_cpuid::CpuId::new()
        .get_advanced_power_mgmt_info()
        .is_some_and(|power| power.has_invariant_tsc())
}

/// Whether the CPU has RDTSCP.
pub fn has_rdtscp() -> bool {
    raw_cpuid::CpuId::new()
        .get_extended_processor_and_feature_identifiers()
        .is_some_and(|features| features.has_rdtscp())
}

/// The counter behind a fence.
#[inline(always)]
pub fn fenced() -> u64 {
    Tsc.read_ordered()
}

/// Whether the CPU has an instruction that orders itself.
pub fn is_self_ordered() -> bool {
    has_rdtscp()
}

/// The counter by the instruction that orders itself.
#[inline(always)]
pub fn self_ordered() -> u64 {
    rdtscp().0
}

/// The counter by RDTSCP, which waits for earlier instructions, and the CPU
/// it was read on: Linux keeps `node << 12 | cpu` in IA32_TSC_AUX
/// (arch/x86/include/asm/segment.h, `VDSO_CPUNODE_BITS`).
#[inline(always)]
pub fn rdtscp() -> (u64, u32) {
    let mut aux = 0;
    // SAFETY: invariant 1.
    let tsc = unsafe { core::arch::x86_64::__rdtscp(&raw mut aux) };
    (tsc, aux & 0xfff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdtscp_counts_on_the_cpu_it_names() {
        assert!(crate::counter::is_readable());
        if !has_rdtscp() {
            return crate::cpus::skipped("this CPU has no RDTSCP");
        }
        let _pin = crate::cpus::pin(crate::cpus::allowed().unwrap()[0]).unwrap();
        let (first, cpu) = rdtscp();
        assert_eq!(cpu as usize, rustix::thread::sched_getcpu());
        assert!(rdtscp().0 >= first);
    }
}
