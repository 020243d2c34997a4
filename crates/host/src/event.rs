//! What happens to a virtual machine that its clock must know of.

use pvclock::{Hertz, Nanos};

/// A virtual CPU by its index, 0 is the boot vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId(pub u32);

/// What happened. MSR accesses are not events but calls, for they have an
/// answer.
///
/// ```
/// use host::{Event, VcpuId};
/// // Everyone's line changes with one vCPU's TSC; a move is that vCPU's affair.
/// assert!(Event::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset: 5 }.stops_all());
/// assert!(!Event::VcpuMoved { vcpu: VcpuId(1), physical_cpu: 3 }.stops_all());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A vCPU was added; its TSC is the host's plus `tsc_offset`.
    VcpuCreated {
        /// Which.
        vcpu: VcpuId,
        /// Guest TSC less host TSC, wrapping.
        tsc_offset: u64,
    },
    /// It was put on another physical CPU, its first run included.
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
    /// The guest is told another rate of its TSC from now on: because the CPUs
    /// have changed theirs (without constant TSC), or because the VMM says so
    /// (KVM_SET_TSC_KHZ).
    TscFrequencyChanged {
        /// The new rate.
        frequency: Hertz,
    },
    /// The VM's clock is set (KVM_SET_CLOCK), forward or back.
    ClockSet {
        /// What it says now.
        clock: Nanos,
    },
    /// A vCPU was reset: its pages are switched off.
    VcpuReset {
        /// Which.
        vcpu: VcpuId,
    },
    /// The host is about to sleep, and no vCPU runs until it has woken: the
    /// TSC that guests go on from. A host that does not say so leaves them at
    /// their last entry's, which they may have read beyond.
    HostSuspended,
    /// The host woke; a TSC that went back is seen from the reading, and made
    /// up for by new offsets ([`GuestClock::tsc_offset`](crate::Host::tsc_offset)).
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
    /// It is about to run again: GUEST_STOPPED is raised, if it was paused.
    Resumed,
    /// The deadline last given has come.
    Timer,
    /// A vCPU that had work was taken off its physical CPU.
    VcpuPreempted {
        /// Which.
        vcpu: VcpuId,
    },
    /// The host measured how long a vCPU waited for a physical one.
    StealMeasured {
        /// Which.
        vcpu: VcpuId,
        /// In all, since its thread began here.
        stolen: Nanos,
    },
}

impl Event {
    /// Whether all pages may get a new line by it: no vCPU runs guest code
    /// while it is handled, so that none reads the old line while another
    /// reads the new one (KVM: KVM_REQ_MCLOCK_INPROGRESS).
    pub const fn stops_all(&self) -> bool {
        match self {
            Self::VcpuCreated { .. }
            | Self::TscOffsetChanged { .. }
            | Self::TscFrequencyChanged { .. }
            | Self::ClockSet { .. }
            | Self::VcpuReset { .. }
            | Self::HostSuspended
            | Self::HostResumed
            | Self::HostClocksource { .. }
            | Self::PhysicalCpuAdded { .. }
            | Self::Paused
            | Self::Resumed => true,
            Self::VcpuMoved { .. }
            | Self::Timer
            | Self::VcpuPreempted { .. }
            | Self::StealMeasured { .. } => false,
        }
    }
}
