//! The host's clocks, read together.

use pvclock::{Nanos, Ticks};
use units::UnixTime;

/// The host's clocks at one moment. Two clocks read one after the other are
/// apart by whatever came between; who reads them keeps that small, or says
/// how large it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The host's TSC.
    pub tsc: Ticks,
    /// Since the host booted, its sleep included. Which clock of the host's it
    /// is decides what the VM's follows: KVM takes one that no NTP daemon
    /// steers, CLOCK_MONOTONIC_RAW and the time slept
    /// (`get_kvmclock_base_ns`, arch/x86/kvm/x86.c). With CLOCK_BOOTTIME,
    /// each new line steps by what was steered since the last.
    pub boot: Nanos,
    /// Time of day.
    pub real: UnixTime,
}
