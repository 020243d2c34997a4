//! Whether one snapshot serves all vCPUs.

use core::fmt;

/// Why each vCPU's page holds a snapshot of its own, without TSC_STABLE
/// (pvclock_update_vm_gtod_copy, arch/x86/kvm/x86.c).
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, ClockProvider, PerVcpu, PlainMemory, HostClocks, ClockSettings, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
/// let memory = PlainMemory::new(0);
/// let mut host = GuestClock::new(ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000)), now)?;
/// for (vcpu, tsc_offset) in [(VcpuId(0), 0), (VcpuId(1), 7)] {
///     host.handle(HostEvent::VcpuCreated { vcpu, tsc_offset }, now, &memory);
/// }
/// assert_eq!(host.why_per_vcpu(), Some(PerVcpu::TscOffsets));
/// # Ok::<(), pvclock_host::SettingsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PerVcpu {
    /// There is no vCPU yet.
    NoVcpu,
    /// The host's clock is not TSC-based: clock and TSC cannot be read as one
    /// pair.
    HostClocksource,
    /// The physical CPUs' TSCs differ.
    PhysicalTscs,
    /// The vCPUs' TSCs have different offsets.
    TscOffsets,
    /// The vCPUs' TSCs run at different rates.
    TscRates,
    /// The boot vCPU uses the old MSRs; such guests do not know TSC_STABLE.
    OldMsr,
}

impl fmt::Display for PerVcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoVcpu => "there is no vCPU yet",
            Self::HostClocksource => "the host's clocksource is not the TSC",
            Self::PhysicalTscs => "the physical CPUs' TSCs differ",
            Self::TscRates => "the vCPUs' TSC rates differ",
            Self::TscOffsets => "the vCPUs' TSC offsets differ",
            Self::OldMsr => "the boot vCPU uses the old MSRs",
        })
    }
}
