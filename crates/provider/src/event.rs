//! What happens to a virtual machine that its clock must know of.

use pvclock::Hertz;

/// A virtual CPU by its index, 0 is the boot vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId(pub u32);

/// What happened. MSR accesses are not events but calls, for they have an
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A vCPU was added; its TSC is the host's plus `tsc_offset`.
    VcpuCreated {
        /// Which.
        vcpu: VcpuId,
        /// Guest TSC less host TSC, wrapping.
        tsc_offset: u64,
    },
    /// It was put on another physical CPU (its first run included).
    VcpuMoved {
        /// Which.
        vcpu: VcpuId,
        /// Where it runs now.
        physical_cpu: u32,
    },
    /// Its TSC was written, or its offset changed by the host.
    TscOffsetChanged {
        /// Which.
        vcpu: VcpuId,
        /// Guest TSC less host TSC, wrapping.
        tsc_offset: u64,
    },
    /// The rate that a physical CPU's TSC runs at has changed (CPUs without
    /// constant TSC), or the rate a guest is told (KVM_SET_TSC_KHZ).
    TscFrequencyChanged {
        /// The new rate.
        frequency: Hertz,
    },
    /// The host is about to sleep.
    HostSuspended,
    /// The host woke; a TSC that went back is seen from the reading.
    HostResumed,
    /// The host's own clocksource is TSC-based now, or no longer.
    HostClocksource {
        /// Whether it is.
        is_tsc: bool,
    },
    /// A physical CPU came up, whose TSC may be behind the others'.
    PhysicalCpuAdded {
        /// Whether its TSC agrees with the others'.
        tsc_agrees: bool,
    },
    /// The VM was stopped by its host.
    Paused,
    /// It is about to run again: GUEST_STOPPED is raised.
    Resumed,
    /// The deadline last given has come.
    Timer,
    /// The host measured how long a vCPU waited for a physical one.
    StealMeasured {
        /// Which.
        vcpu: VcpuId,
        /// Since the VM began, in ns.
        stolen: pvclock::Nanos,
    },
}
