//! The model-specific registers of each provider, and which writes they take.
//! An address is checked when it is written, not when it is used: then the
//! guest's error is the guest's #GP.

use serde::{Deserialize, Serialize};

use crate::{ClockAddress, ClockProvider, Misplaced, VcpuId};

/// kvm-clock's wall clock, and its older number.
pub const KVM_WALL_CLOCK: u32 = 0x4b56_4d00;
/// See [`KVM_WALL_CLOCK`].
pub const KVM_WALL_CLOCK_OLD: u32 = 0x11;
/// kvm-clock's time page of a vCPU, and its older number.
pub const KVM_SYSTEM_TIME: u32 = 0x4b56_4d01;
/// See [`KVM_SYSTEM_TIME`].
pub const KVM_SYSTEM_TIME_OLD: u32 = 0x12;
/// Steal time page of a vCPU.
pub const KVM_STEAL_TIME: u32 = 0x4b56_4d03;
/// Hyper-V: the guest's OS id. It must be nonzero before those of
/// re-enlightenment are used; Linux enables the page before.
pub const HV_GUEST_OS_ID: u32 = 0x4000_0000;
/// Hyper-V: the index of this virtual processor.
pub const HV_VP_INDEX: u32 = 0x4000_0002;
/// Hyper-V: reference counter, 100 ns.
pub const HV_TIME_REF_COUNT: u32 = 0x4000_0020;
/// Hyper-V: reference TSC page.
pub const HV_REFERENCE_TSC: u32 = 0x4000_0021;
/// Hyper-V: TSC frequency, Hz.
pub const HV_TSC_FREQUENCY: u32 = 0x4000_0022;
/// Hyper-V: APIC timer frequency, Hz.
pub const HV_APIC_FREQUENCY: u32 = 0x4000_0023;
/// Hyper-V: which interrupt notifies the guest of another TSC rate.
pub const HV_REENLIGHTENMENT_CONTROL: u32 = 0x4000_0106;
/// Hyper-V: whether to emulate the old rate until the guest acknowledges.
pub const HV_TSC_EMULATION_CONTROL: u32 = 0x4000_0107;
/// Hyper-V: whether the old rate is being emulated; the guest writes 0 to end it.
pub const HV_TSC_EMULATION_STATUS: u32 = 0x4000_0108;
/// Hyper-V: bit 0 has the host promise an invariant TSC; the guest cannot clear it.
pub const HV_TSC_INVARIANT_CONTROL: u32 = 0x4000_0118;

/// The alignment of the addresses in them. (The wall clock's register has no
/// enable bit: writing it is the request.)
pub(crate) const TIME_ALIGNMENT: u64 = 4;
pub(crate) const STEAL_ALIGNMENT: u64 = 64;

/// Consecutive registers.
///
/// ```
/// use pvclock_host::ClockProvider;
/// let ours = |msr| ClockProvider::Kvm.msrs().iter().any(|range| range.contains(msr));
/// assert!(ours(0x4b56_4d01) && ours(0x12) && !ours(0x10));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsrRange {
    /// The number of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl MsrRange {
    const fn new(first: u32, count: u32) -> Self {
        Self { first, count }
    }

    /// Whether `msr` is one of them.
    pub const fn contains(self, msr: u32) -> bool {
        msr.wrapping_sub(self.first) < self.count
    }
}

const KVM: &[MsrRange] = &[
    MsrRange::new(KVM_WALL_CLOCK_OLD, 2),
    MsrRange::new(KVM_WALL_CLOCK, 2),
    MsrRange::new(KVM_STEAL_TIME, 1),
];

/// Not 0x4000_0001, the hypercall page: the VMM handles hypercalls.
const HYPERV: &[MsrRange] = &[
    MsrRange::new(HV_GUEST_OS_ID, 1),
    MsrRange::new(HV_VP_INDEX, 1),
    MsrRange::new(HV_TIME_REF_COUNT, 4),
    MsrRange::new(HV_REENLIGHTENMENT_CONTROL, 3),
    MsrRange::new(HV_TSC_INVARIANT_CONTROL, 1),
];

impl ClockProvider {
    /// The registers that this provider handles.
    pub const fn msrs(self) -> &'static [MsrRange] {
        match self {
            Self::None | Self::Legacy | Self::Minimal => &[],
            Self::Kvm => KVM,
            Self::HyperV => HYPERV,
        }
    }
}

/// Why an access failed. Each is #GP for the guest.
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, ClockProvider, PlainMemory, HostClocks, ClockSettings, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let now = HostClocks::new(Ticks(0), Nanos(0), UnixTime(Nanos(0)));
/// let memory = PlainMemory::new(1);
/// let mut host = GuestClock::new(ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000)), now)?;
/// let vcpu = VcpuId(0);
/// host.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, now, &memory);
/// let refused = host.write_msr(vcpu, 0x4b56_4d01, 0x8001, now, &memory).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "MSR 0x4b564d01: 0x8001 was written, and 32 bytes at guest address 0x8000 are not all memory"
/// );
/// # Ok::<(), pvclock_host::SettingsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MsrError {
    /// Not a register of this provider: the VMM handles it, or it does not exist.
    #[error("MSR {msr:#x} does not belong to provider {kind}")]
    NotOurs {
        /// The register.
        msr: u32,
        /// The provider in use.
        kind: ClockProvider,
    },
    /// It can only be read.
    #[error("MSR {msr:#x} is read-only; {value:#x} was written")]
    ReadOnly {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
    },
    /// Reserved bits were set.
    #[error("MSR {msr:#x}: {value:#x} sets reserved bits (mask {reserved:#x})")]
    Reserved {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
        /// The bits that must be 0.
        reserved: u64,
    },
    /// A bit that the guest had set stays set.
    #[error("MSR {msr:#x}: {value:#x} clears a bit that stays set once it is")]
    StaysSet {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
    },
    /// There is no page at the address.
    #[error("MSR {msr:#x}: {value:#x} was written, and {why}")]
    Misplaced {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
        /// The reason.
        why: Misplaced,
    },
    /// Hyper-V: the guest has not written its OS id yet.
    #[error("MSR {msr:#x}: {value:#x} was written before a guest OS id")]
    NoGuestOs {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
    },
    /// The vCPU was never created.
    #[error("MSR {msr:#x} of vCPU {}, which was never created", .vcpu.0)]
    NoSuchVcpu {
        /// The register.
        msr: u32,
        /// The vCPU.
        vcpu: VcpuId,
    },
}

/// A page's address with bit 0 to enable it, as in most of these registers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageMsr(pub(crate) u64);

impl PageMsr {
    /// The page, while it is enabled.
    #[inline]
    pub(crate) const fn page(self) -> Option<ClockAddress> {
        if self.0 & 1 == 1 { Some(ClockAddress(self.0 & !1)) } else { None }
    }

    /// The same register, its bits below `alignment` (except bit 0) checked. A
    /// clear bit 0 disables the page, whatever the address: a guest may leave
    /// one there.
    pub(crate) const fn checked(msr: u32, value: u64, alignment: u64) -> Result<Self, MsrError> {
        let reserved = (alignment - 1) & !1;
        if value & 1 == 1 && value & reserved != 0 {
            return Err(MsrError::Reserved { msr, value, reserved });
        }
        Ok(Self(value))
    }
}
