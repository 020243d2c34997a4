//! The events of a virtual machine that affect its clock.

use pvclock::{Hertz, Nanos};
use serde::{Deserialize, Serialize};

/// A virtual CPU by its index; 0 is the boot vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VcpuId(pub u32);

/// What happened. MSR accesses are not events but calls, because they have a
/// result.
///
/// ```
/// use pvclock_host::{HostEvent, VcpuId};
/// // One vCPU's new TSC changes the snapshot of all; a move concerns that vCPU alone.
/// assert!(HostEvent::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset: 5 }.stops_all());
/// assert!(!HostEvent::VcpuMoved { vcpu: VcpuId(1), physical_cpu: 3 }.stops_all());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostEvent {
    /// A vCPU was added; its TSC is the host's plus `tsc_offset`.
    VcpuCreated {
        /// The vCPU.
        vcpu: VcpuId,
        /// Guest TSC less host TSC, wrapping.
        tsc_offset: u64,
    },
    /// It was moved to another physical CPU, or runs for the first time.
    VcpuMoved {
        /// The vCPU.
        vcpu: VcpuId,
        /// Where it runs now.
        physical_cpu: u32,
    },
    /// Its TSC was written, or the host changed its offset.
    TscOffsetChanged {
        /// The vCPU.
        vcpu: VcpuId,
        /// Guest TSC less host TSC, wrapping.
        tsc_offset: u64,
    },
    /// The guest reads another TSC frequency from now on: by CPUID, MSRs and pages.
    /// The TSC itself continues as before: for that send
    /// [`TscRateChanged`](Self::TscRateChanged).
    TscFrequencyAdvertised {
        /// The new frequency.
        frequency: Hertz,
    },
    /// A vCPU's TSC runs at another true rate from now on, from the value that it has
    /// now: the VMM set it (KVM_SET_TSC_KHZ), or, where hardware does not scale, the
    /// CPUs have changed theirs (without constant TSC). Where it is scaled, set the
    /// vCPU's new [offset](crate::GuestClock::tsc_offset). Send it for all vCPUs with
    /// one reading of the clocks, or their offsets differ. A rate that cannot be
    /// scaled to is logged, and nothing changes.
    TscRateChanged {
        /// The vCPU.
        vcpu: VcpuId,
        /// The new rate.
        rate: Hertz,
    },
    /// The VM's clock is set (KVM_SET_CLOCK), forward or back.
    ClockSet {
        /// Its new value.
        clock: Nanos,
    },
    /// A vCPU was reset: its pages are switched off.
    VcpuReset {
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// The host is about to sleep, and no vCPU runs until it has woken. Guests
    /// continue from the TSC of this event. Without the event they continue
    /// from that of the last event or entry with something due, and may have read a
    /// later one.
    HostSuspended,
    /// The host woke. The reading shows whether its TSC went back; new offsets
    /// compensate ([`GuestClock::tsc_offset`](crate::GuestClock::tsc_offset)).
    HostResumed,
    /// The host's own clocksource is TSC-based now, or no longer.
    HostClocksource {
        /// Whether it is.
        is_tsc: bool,
    },
    /// A physical CPU came online; its TSC may be behind the others'.
    PhysicalCpuAdded {
        /// Which.
        physical_cpu: u32,
        /// Whether its TSC agrees with the others'.
        tsc_agrees: bool,
    },
    /// A physical CPU went offline.
    PhysicalCpuRemoved {
        /// Which.
        physical_cpu: u32,
    },
    /// The host paused the VM.
    Paused,
    /// It is about to run again: GUEST_STOPPED is raised if it was paused.
    Resumed,
    /// The current deadline has come.
    Timer,
    /// A vCPU that had work was taken off its physical CPU.
    VcpuPreempted {
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// The host measured how long a vCPU waited for a physical one.
    StealMeasured {
        /// The vCPU.
        vcpu: VcpuId,
        /// In total, since its thread started on this host.
        stolen: Nanos,
    },
}

impl HostEvent {
    /// Whether all pages may get a new snapshot: then no vCPU may run guest
    /// code while the event is handled, or one reads the old snapshot while
    /// another reads the new one (KVM: KVM_REQ_MCLOCK_INPROGRESS).
    pub const fn stops_all(&self) -> bool {
        match self {
            Self::VcpuCreated { .. }
            | Self::TscOffsetChanged { .. }
            | Self::TscFrequencyAdvertised { .. }
            | Self::TscRateChanged { .. }
            | Self::ClockSet { .. }
            | Self::VcpuReset { .. }
            | Self::HostSuspended
            | Self::HostResumed
            | Self::HostClocksource { .. }
            | Self::PhysicalCpuAdded { .. }
            | Self::PhysicalCpuRemoved { .. }
            | Self::Paused
            | Self::Resumed => true,
            Self::VcpuMoved { .. }
            | Self::Timer
            | Self::VcpuPreempted { .. }
            | Self::StealMeasured { .. } => false,
        }
    }
}
