//! The timer's registers as MSRs, and which of their bits can be written.

/// Why a guest gets #GP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not one of the timer's.
    #[error("MSR {msr:#x} does not belong to the local timer")]
    NotThere {
        /// The register.
        msr: u32,
    },
    /// Read of the end-of-interrupt register.
    #[error("MSR {msr:#x} is write-only")]
    WriteOnly {
        /// The register.
        msr: u32,
    },
    /// Write to a read-only register.
    #[error("MSR {msr:#x} is read-only; {value:#x} was written")]
    ReadOnly {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
    },
    /// Bits that must be 0.
    #[error("MSR {msr:#x}: {value:#x} sets reserved bits (allowed {allowed:#x})")]
    Reserved {
        /// The register.
        msr: u32,
        /// The value written.
        value: u64,
        /// The bits that may be set.
        allowed: u64,
    },
}

/// The registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    TscDeadline,
    Id,
    Version,
    EndOfInterrupt,
    Spurious,
    Lvt,
    InitialCount,
    CurrentCount,
    Divide,
}

impl Register {
    /// The register of an MSR number.
    pub(super) const fn from_msr(msr: u32) -> Option<Self> {
        Some(match msr {
            0x6e0 => Self::TscDeadline,
            0x802 => Self::Id,
            0x803 => Self::Version,
            0x80b => Self::EndOfInterrupt,
            0x80f => Self::Spurious,
            0x832 => Self::Lvt,
            0x838 => Self::InitialCount,
            0x839 => Self::CurrentCount,
            0x83e => Self::Divide,
            _ => return None,
        })
    }

    /// The bits that a write may set; `None` for a read-only register.
    pub(super) const fn writable(self) -> Option<u64> {
        Some(match self {
            Self::Id | Self::Version | Self::CurrentCount => return None,
            Self::TscDeadline => u64::MAX,
            Self::EndOfInterrupt => 0,
            // Vector and enable; focus checking and suppression of broadcasts
            // do not exist here.
            Self::Spurious => 0x1ff,
            // Vector, delivery status (ignored), mask, mode.
            Self::Lvt => 0x7_10ff,
            Self::InitialCount => 0xffff_ffff,
            Self::Divide => 0b1011,
        })
    }
}

/// The timer's entry in the local vector table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lvt {
    pub(super) vector: u8,
    pub(super) masked: bool,
    /// The timer fires when the TSC gets to a value.
    pub(super) by_tsc: bool,
    /// It fires again and again.
    pub(super) periodic: bool,
}

impl Lvt {
    /// Delivery status, which only the APIC sets; this one delivers at once.
    pub(super) const PENDING: u32 = 1 << 12;
    pub(super) const MASKED: u32 = 1 << 16;
    const PERIODIC: u32 = 1 << 17;
    pub(super) const TSC_DEADLINE: u64 = 1 << 18;

    /// Whether an entry selects two modes at once.
    pub(super) const fn is_reserved(entry: u32) -> bool {
        entry & Self::PERIODIC != 0 && entry as u64 & Self::TSC_DEADLINE != 0
    }

    pub(super) fn from_entry(entry: u32) -> Self {
        let by_tsc = entry as u64 & Self::TSC_DEADLINE != 0;
        let [masked, periodic] = [Self::MASKED, Self::PERIODIC].map(|bit| entry & bit != 0);
        Self { vector: entry as u8, masked, by_tsc, periodic }
    }
}
