//! The host's clocks, read together.

use pvclock::{Nanos, Ticks};
use units::UnixTime;

/// The host's clocks at one moment. Two clocks that are read one after the
/// other differ by the time between the reads; the caller keeps that
/// short, or states how long it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostClocks {
    /// The host's TSC.
    pub tsc: Ticks,
    /// Time since the host booted, including its sleep. The VM's clock follows
    /// whichever clock this is: KVM takes one that no NTP daemon steers,
    /// CLOCK_MONOTONIC_RAW plus the time slept (`get_kvmclock_base_ns`,
    /// arch/x86/kvm/x86.c). With CLOCK_BOOTTIME, each new snapshot steps by
    /// what was steered since the last.
    pub boot: Nanos,
    /// Time of day.
    pub real: UnixTime,
}
