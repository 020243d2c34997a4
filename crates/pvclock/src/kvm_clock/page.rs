//! Layout of the time page, and its contents as a plain value.

use core::mem::{offset_of, size_of};

use crate::shared::{Aligned, Memory, Split, Word};
use crate::{Nanos, Scale};

/// The time page of one vCPU: 32 bytes that host and guest share.
#[derive(Debug)]
#[repr(C)]
pub struct TimePage<M: Memory = Aligned> {
    pub(super) version: M::U32,
    padding: M::U32,
    pub(super) tsc_timestamp: M::U64,
    pub(super) system_time: M::U64,
    pub(super) tsc_to_system_mul: M::U32,
    /// Byte 0 tsc_shift, byte 1 flags, bytes 2 and 3 padding.
    pub(super) shift_and_flags: M::U32,
}

macro_rules! assert_layout {
    ($memory:ty) => {
        const _: () = {
            assert!(size_of::<TimePage<$memory>>() == 32);
            assert!(offset_of!(TimePage<$memory>, version) == 0);
            assert!(offset_of!(TimePage<$memory>, tsc_timestamp) == 8);
            assert!(offset_of!(TimePage<$memory>, system_time) == 16);
            assert!(offset_of!(TimePage<$memory>, tsc_to_system_mul) == 24);
            assert!(offset_of!(TimePage<$memory>, shift_and_flags) == 28);
        };
    };
}
assert_layout!(Aligned);
assert_layout!(Split);

impl TimePage<Aligned> {
    /// A page of our own, as a guest would register: all zero, switched off.
    pub fn new() -> Self {
        Self::from_info(&TimeInfo::default())
    }
}

impl Default for TimePage<Aligned> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Memory> TimePage<M> {
    /// A page that holds `info`, in any kind of memory.
    pub fn from_info(info: &TimeInfo) -> Self {
        Self {
            version: M::U32::new(info.version),
            padding: M::U32::new(0),
            tsc_timestamp: M::U64::new(info.tsc_timestamp),
            system_time: M::U64::new(info.system_time.0),
            tsc_to_system_mul: M::U32::new(info.scale.mul()),
            shift_and_flags: M::U32::new(pack(info.scale.shift(), info.flags)),
        }
    }
}

/// Byte 29 of the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// All pages of the VM describe one clock: any of them serves any CPU.
    pub const TSC_STABLE: Self = Self(1);
    /// The guest was paused.
    pub const GUEST_STOPPED: Self = Self(2);
    /// system_time counts from the guest's start (Xen).
    pub const COUNTS_FROM_ZERO: Self = Self(4);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The page's contents, taken as one whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeInfo {
    /// Even; grows by two an update.
    pub version: u32,
    /// The TSC, in cycles, at the update.
    pub tsc_timestamp: u64,
    /// The system time then.
    pub system_time: Nanos,
    /// The TSC's rate.
    pub scale: Scale,
    /// Flags.
    pub flags: Flags,
}

impl Default for TimeInfo {
    /// As the zeroed page has it.
    fn default() -> Self {
        Self {
            version: 0,
            tsc_timestamp: 0,
            system_time: Nanos(0),
            scale: Scale::from_parts(0, 0),
            flags: Flags(0),
        }
    }
}

impl TimeInfo {
    /// The contents as the page's bytes, for a file or another address space.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[0..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.tsc_timestamp.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.system_time.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.scale.mul().to_le_bytes());
        bytes[28..32].copy_from_slice(&pack(self.scale.shift(), self.flags).to_le_bytes());
        bytes
    }

    /// The contents from the page's bytes, copied between two updates.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        let [w0, w1, w2, w3] = crate::shared::words(bytes);
        let (shift, flags) = unpack((w3 >> 32) as u32);
        Self {
            version: w0 as u32,
            tsc_timestamp: w1,
            system_time: Nanos(w2),
            scale: Scale::from_parts(w3 as u32, shift),
            flags,
        }
    }
}

/// The word at offset 28.
pub(super) const fn pack(shift: i8, flags: Flags) -> u32 {
    u32::from_le_bytes([shift as u8, flags.0, 0, 0])
}

/// Its two fields.
#[inline(always)]
pub(super) const fn unpack(word: u32) -> (i8, Flags) {
    (word as i8, Flags((word >> 8) as u8))
}
