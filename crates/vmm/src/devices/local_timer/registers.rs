//! The timer's registers as MSRs, and what of them can be written.

/// Why a guest gets #GP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not one of the timer's.
    #[error("MSR {msr:#x} is none of the local timer's")]
    NotThere {
        /// Which.
        msr: u32,
    },
    /// Read of the end-of-interrupt register.
    #[error("MSR {msr:#x} can only be written")]
    WriteOnly {
        /// Which.
        msr: u32,
    },
    /// Write to a register that says something.
    #[error("MSR {msr:#x} can only be read, and {value:#x} was written")]
    ReadOnly {
        /// Which.
        msr: u32,
        /// What was written.
        value: u64,
    },
    /// Bits that must be 0.
    #[error("{value:#x} was written to MSR {msr:#x}, which takes the bits {allowed:#x} only")]
    Reserved {
        /// Which.
        msr: u32,
        /// What was written.
        value: u64,
        /// The bits that may be set.
        allowed: u64,
    },
}

/// The registers there are.
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
    /// What an MSR stands for.
    pub(super) const fn of(msr: u32) -> Option<Self> {
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

    /// The bits that may be set by a write; none when it is not to be written.
    pub(super) const fn writable(self) -> Option<u64> {
        Some(match self {
            Self::Id | Self::Version | Self::CurrentCount => return None,
            Self::TscDeadline => u64::MAX,
            Self::EndOfInterrupt => 0,
            // Vector and switch; focus checking and suppression of broadcasts
            // are not offered.
            Self::Spurious => 0x1ff,
            // Vector, delivery status (ignored), mask, mode.
            Self::Lvt => 0x7_10ff,
            Self::InitialCount => 0xffff_ffff,
            Self::Divide => 0b1011,
        })
    }
}

/// When the timer fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Once, at the end of the count.
    OneShot,
    /// At the end of each.
    Periodic,
    /// When the TSC gets to a value.
    TscDeadline,
}

/// The timer's entry in the local vector table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lvt {
    pub(super) vector: u8,
    pub(super) masked: bool,
    pub(super) mode: Mode,
}

impl Lvt {
    /// Delivery status, which only an APIC sets; ours delivers at once.
    pub(super) const PENDING: u32 = 1 << 12;
    pub(super) const MASKED: u32 = 1 << 16;
    const PERIODIC: u32 = 1 << 17;
    pub(super) const TSC_DEADLINE: u64 = 1 << 18;

    /// Whether an entry asks for two modes at once.
    pub(super) const fn is_reserved(entry: u32) -> bool {
        entry & Self::PERIODIC != 0 && entry as u64 & Self::TSC_DEADLINE != 0
    }

    pub(super) const fn of(entry: u32) -> Self {
        let mode = if entry as u64 & Self::TSC_DEADLINE != 0 {
            Mode::TscDeadline
        } else if entry & Self::PERIODIC != 0 {
            Mode::Periodic
        } else {
            Mode::OneShot
        };
        Self { vector: entry as u8, masked: entry & Self::MASKED != 0, mode }
    }
}

/// By how much the divide configuration (bits 0, 1 and 3) divides: 2 to 128,
/// and 1 for the last.
pub(super) const fn divisor(configuration: u32) -> u32 {
    let power = (configuration & 3 | configuration >> 1 & 4) + 1;
    1 << (power & 7)
}
