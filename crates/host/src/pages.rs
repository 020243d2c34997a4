//! The clock pages as this crate writes them: in 32-bit words.
//!
//! A guest chooses where its pages are, also one over another and at addresses
//! that are only 4-byte aligned. Atomics of two sizes at one address are
//! undefined behaviour when they race (`std::sync::atomic`, "Memory model for
//! atomic accesses"), so all accesses to guest memory take one size; a 64-bit
//! field is two words, made whole by its page's version check.

use pvclock::shared::Split;

/// kvm-clock's time.
pub type TimePage = pvclock::kvm_clock::TimePage<Split>;
/// kvm-clock's wall clock.
pub type WallClockPage = pvclock::kvm_clock::WallClockPage<Split>;
/// Steal time.
pub type StealPage = pvclock::steal_time::StealPage<Split>;
/// Hyper-V's reference TSC page.
pub type ReferencePage = pvclock::hyperv::ReferencePage<Split>;
/// VMClock.
pub type VmClockPage = pvclock::vmclock::VmClockPage<Split>;
