//! Layout of the VMClock page, and its contents as a plain value.

use core::mem::{offset_of, size_of};

use crate::shared::{Aligned, Memory, Word};
use crate::{Nanos, PageError};

/// "VCLK", little-endian.
pub const MAGIC: u32 = 0x4b4c_4356;

/// The layout this crate knows.
pub const LAYOUT_VERSION: u16 = 1;

/// The VMClock page: the 112 bytes of its structure, at the start of a region
/// of at least a page.
#[derive(Debug)]
#[repr(C)]
pub struct VmClockPage<M: Memory = Aligned> {
    pub(super) magic: M::U32,
    pub(super) size: M::U32,
    /// Bytes 0 and 1 layout version, 2 counter id, 3 time type.
    pub(super) identity: M::U32,
    pub(super) seq_count: M::U32,
    pub(super) disruption_marker: M::U64,
    pub(super) flags: M::U64,
    /// Bytes 0 and 1 padding, 2 clock status, 3 leap smearing hint.
    pub(super) status: M::U32,
    /// Bytes 0 and 1 TAI offset, 2 leap indicator, 3 counter_period_shift.
    pub(super) leap_and_shift: M::U32,
    pub(super) counter_value: M::U64,
    pub(super) period: M::U64,
    pub(super) period_est_error: M::U64,
    pub(super) period_max_error: M::U64,
    pub(super) time_sec: M::U64,
    pub(super) time_frac: M::U64,
    pub(super) time_est_error_ns: M::U64,
    pub(super) time_max_error_ns: M::U64,
    pub(super) vm_generation: M::U64,
}

const _: () = {
    assert!(size_of::<VmClockPage>() == 112);
    assert!(offset_of!(VmClockPage, magic) == 0);
    assert!(offset_of!(VmClockPage, size) == 4);
    assert!(offset_of!(VmClockPage, identity) == 8);
    assert!(offset_of!(VmClockPage, seq_count) == 12);
    assert!(offset_of!(VmClockPage, disruption_marker) == 16);
    assert!(offset_of!(VmClockPage, flags) == 24);
    assert!(offset_of!(VmClockPage, status) == 32);
    assert!(offset_of!(VmClockPage, leap_and_shift) == 36);
    assert!(offset_of!(VmClockPage, counter_value) == 40);
    assert!(offset_of!(VmClockPage, period) == 48);
    assert!(offset_of!(VmClockPage, period_est_error) == 56);
    assert!(offset_of!(VmClockPage, period_max_error) == 64);
    assert!(offset_of!(VmClockPage, time_sec) == 72);
    assert!(offset_of!(VmClockPage, time_frac) == 80);
    assert!(offset_of!(VmClockPage, time_est_error_ns) == 88);
    assert!(offset_of!(VmClockPage, time_max_error_ns) == 96);
    assert!(offset_of!(VmClockPage, vm_generation) == 104);
};

impl<M: Memory> VmClockPage<M> {
    /// A page that holds `info`.
    pub fn from_info(info: &VmClockInfo) -> Self {
        Self {
            magic: M::U32::new(MAGIC),
            size: M::U32::new(info.size),
            identity: M::U32::new(info.identity_word()),
            seq_count: M::U32::new(info.seq_count),
            disruption_marker: M::U64::new(info.disruption_marker),
            flags: M::U64::new(info.flags.0),
            status: M::U32::new(info.status_word()),
            leap_and_shift: M::U32::new(info.leap_word()),
            counter_value: M::U64::new(info.counter_value),
            period: M::U64::new(info.period),
            period_est_error: M::U64::new(info.period_est_error),
            period_max_error: M::U64::new(info.period_max_error),
            time_sec: M::U64::new(info.time_sec),
            time_frac: M::U64::new(info.time_frac),
            time_est_error_ns: M::U64::new(info.time_est_error.0),
            time_max_error_ns: M::U64::new(info.time_max_error.0),
            vm_generation: M::U64::new(info.vm_generation),
        }
    }
}

/// The counter that a page's times refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterId(pub u8);

impl CounterId {
    /// Arm's virtual counter.
    pub const ARM_VIRTUAL: Self = Self(0);
    /// The x86 TSC.
    pub const X86_TSC: Self = Self(1);
    /// None: the page's times cannot be carried on.
    pub const INVALID: Self = Self(0xff);
    /// The counter that programs read on this CPU; [`CounterId::INVALID`] where
    /// no page names one.
    pub const NATIVE: Self = if cfg!(target_arch = "x86_64") {
        Self::X86_TSC
    } else if cfg!(target_arch = "aarch64") {
        Self::ARM_VIRTUAL
    } else {
        Self::INVALID
    };
}

/// The time scale of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeType(pub u8);

impl TimeType {
    /// UTC.
    pub const UTC: Self = Self(0);
    /// TAI.
    pub const TAI: Self = Self(1);
    /// A monotonic clock of no known origin.
    pub const MONOTONIC: Self = Self(2);
}

/// The state of the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmClockStatus(pub u8);

impl VmClockStatus {
    /// Not stated.
    pub const UNKNOWN: Self = Self(0);
    /// On its way.
    pub const INITIALISING: Self = Self(1);
    /// Good.
    pub const SYNCHRONISED: Self = Self(2);
    /// Good once, now on its own.
    pub const FREE_RUNNING: Self = Self(3);
    /// Not to be used.
    pub const UNRELIABLE: Self = Self(4);
}

/// Which fields are valid, and what is about to happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmClockFlags(pub u64);

impl VmClockFlags {
    /// The TAI offset is valid.
    pub const TAI_OFFSET_VALID: Self = Self(1 << 0);
    /// A disruption is expected within a day.
    pub const DISRUPTION_SOON: Self = Self(1 << 1);
    /// A disruption is expected within an hour.
    pub const DISRUPTION_IMMINENT: Self = Self(1 << 2);
    /// The period's estimated error is valid.
    pub const PERIOD_EST_ERROR_VALID: Self = Self(1 << 3);
    /// The period's maximum error is valid.
    pub const PERIOD_MAX_ERROR_VALID: Self = Self(1 << 4);
    /// The time's estimated error is valid.
    pub const TIME_EST_ERROR_VALID: Self = Self(1 << 5);
    /// The time's maximum error is valid.
    pub const TIME_MAX_ERROR_VALID: Self = Self(1 << 6);
    /// Time never goes backward across updates.
    pub const TIME_MONOTONIC: Self = Self(1 << 7);
    /// The VM generation counter is there.
    pub const VM_GENERATION_PRESENT: Self = Self(1 << 8);
    /// The device notifies the guest of each update.
    pub const NOTIFICATION_PRESENT: Self = Self(1 << 9);

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
pub struct VmClockInfo {
    /// Size of the shared region, bytes.
    pub size: u32,
    /// Which counter.
    pub counter_id: CounterId,
    /// Which time scale.
    pub time_type: TimeType,
    /// Even; grows by two an update.
    pub seq_count: u32,
    /// A changed value means that the counter was disrupted.
    pub disruption_marker: u64,
    /// Which fields are valid.
    pub flags: VmClockFlags,
    /// The state of the host's clock.
    pub clock_status: VmClockStatus,
    /// 0 strict, 1 noon linear, 2 UTC-SLS.
    pub leap_smearing_hint: u8,
    /// UTC − TAI, s: −37 since 2017. That is how Linux takes it (tai_adjust,
    /// drivers/ptp/ptp_vmclock.c) and UAPI.13 since version 1.1; 1.0 had 37.
    pub tai_offset_s: i16,
    /// 0 none, 1 pre +, 2 pre −, 3 in the leap second, 4 post +, 5 post −.
    pub leap_indicator: u8,
    /// The period's unit is 2^−(64 + this) s.
    pub period_shift: u8,
    /// The counter, in cycles, at the update.
    pub counter_value: u64,
    /// Length of a cycle, in units of 2^−(64 + period_shift) s.
    pub period: u64,
    /// Its estimated error, same unit.
    pub period_est_error: u64,
    /// Its maximum error, same unit.
    pub period_max_error: u64,
    /// Seconds at the update.
    pub time_sec: u64,
    /// Their fraction, in units of 2^−64 s.
    pub time_frac: u64,
    /// The time's estimated error at the update.
    pub time_est_error: Nanos,
    /// The time's maximum error at the update.
    pub time_max_error: Nanos,
    /// A changed value means that the VM was restored from a snapshot.
    pub vm_generation: u64,
}

impl VmClockInfo {
    /// Bytes of the structure, and of a page that carries it.
    pub const SIZE: usize = size_of::<VmClockPage>();

    /// The contents from the page's bytes, copied between two updates.
    ///
    /// # Errors
    /// Another magic number, layout version or size.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Result<Self, PageError> {
        let w: [u64; Self::SIZE / 8] = crate::shared::words(bytes);
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        check_identity(low(w[0]), high(w[0]), low(w[1]))?;
        Ok(Self {
            seq_count: high(w[1]),
            disruption_marker: w[2],
            flags: VmClockFlags(w[3]),
            counter_value: w[5],
            period: w[6],
            period_est_error: w[7],
            period_max_error: w[8],
            time_sec: w[9],
            time_frac: w[10],
            time_est_error: Nanos(w[11]),
            time_max_error: Nanos(w[12]),
            vm_generation: w[13],
            ..Self::from_words(high(w[0]), low(w[1]), low(w[4]), high(w[4]))
        })
    }

    /// The contents as the page's bytes, for a file or another address space.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let words = [
            pair(MAGIC, self.size),
            pair(self.identity_word(), self.seq_count),
            self.disruption_marker,
            self.flags.0,
            pair(self.status_word(), self.leap_word()),
            self.counter_value,
            self.period,
            self.period_est_error,
            self.period_max_error,
            self.time_sec,
            self.time_frac,
            self.time_est_error.0,
            self.time_max_error.0,
            self.vm_generation,
        ];
        let mut bytes = [0; Self::SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// All fields 0: to be filled in, as nothing is known by it and no counter is
    /// named.
    pub const ZERO: Self = Self::from_words(0, 0, 0, 0);

    /// The contents that share words; every other field is 0.
    pub(super) const fn from_words(size: u32, identity: u32, status: u32, leap: u32) -> Self {
        let [_, _, counter_id, time_type] = identity.to_le_bytes();
        let [_, _, clock_status, leap_smearing_hint] = status.to_le_bytes();
        let [tai_low, tai_high, leap_indicator, period_shift] = leap.to_le_bytes();
        Self {
            size,
            counter_id: CounterId(counter_id),
            time_type: TimeType(time_type),
            seq_count: 0,
            disruption_marker: 0,
            flags: VmClockFlags(0),
            clock_status: VmClockStatus(clock_status),
            leap_smearing_hint,
            tai_offset_s: i16::from_le_bytes([tai_low, tai_high]),
            leap_indicator,
            period_shift,
            counter_value: 0,
            period: 0,
            period_est_error: 0,
            period_max_error: 0,
            time_sec: 0,
            time_frac: 0,
            time_est_error: Nanos(0),
            time_max_error: Nanos(0),
            vm_generation: 0,
        }
    }

    pub(super) const fn identity_word(&self) -> u32 {
        let [low, high] = LAYOUT_VERSION.to_le_bytes();
        u32::from_le_bytes([low, high, self.counter_id.0, self.time_type.0])
    }

    pub(super) const fn status_word(&self) -> u32 {
        u32::from_le_bytes([0, 0, self.clock_status.0, self.leap_smearing_hint])
    }

    pub(super) const fn leap_word(&self) -> u32 {
        let [low, high] = self.tai_offset_s.to_le_bytes();
        u32::from_le_bytes([low, high, self.leap_indicator, self.period_shift])
    }
}

/// Whether the constant fields are those of a page this crate knows.
pub(super) const fn check_identity(magic: u32, size: u32, identity: u32) -> Result<(), PageError> {
    if magic != MAGIC {
        return Err(PageError::Magic { found: magic });
    }
    let version = identity as u16;
    if version != LAYOUT_VERSION {
        return Err(PageError::LayoutVersion { found: version });
    }
    let needed = VmClockInfo::SIZE as u32;
    if size < needed {
        return Err(PageError::Size { found: size, needed });
    }
    Ok(())
}
