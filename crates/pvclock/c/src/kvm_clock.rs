//! Values of kvm-clock's two pages, and of a counter's rate.

use core::mem::{align_of, size_of};

use pvclock::kvm_clock::{LastTime, TimeInfo, TimeUpdate, WallClock};
use pvclock::{Nanos, Scale};

/// Flag of a kvm-clock page: all pages of the VM describe one clock, and any
/// of them serves any CPU.
pub const PVCLOCK_KVM_TSC_STABLE: u8 = 1;
/// Flag of a kvm-clock page: the guest was paused.
pub const PVCLOCK_KVM_GUEST_STOPPED: u8 = 2;
/// Flag of a kvm-clock page: system time counts from the guest's start (Xen).
pub const PVCLOCK_KVM_COUNTS_FROM_ZERO: u8 = 4;

/// The contents of a kvm-clock page, taken as one whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockKvmInfo {
    /// The TSC at the update.
    pub tsc_timestamp: u64,
    /// The VM's system time then, nanoseconds.
    pub system_time_ns: u64,
    /// The TSC's rate. mul is 0 while the page is switched off.
    pub scale: PvclockScale,
    /// Even; grows by two an update.
    pub version: u32,
    /// PVCLOCK_KVM_TSC_STABLE and the others.
    pub flags: u8,
}

impl From<TimeInfo> for PvclockKvmInfo {
    fn from(info: TimeInfo) -> Self {
        Self {
            tsc_timestamp: info.tsc_timestamp,
            system_time_ns: info.system_time.0,
            scale: info.scale.into(),
            version: info.version,
            flags: info.flags.0,
        }
    }
}

/// What the host writes at an update of a kvm-clock page.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockKvmUpdate {
    /// The guest's TSC.
    pub tsc_timestamp: u64,
    /// The VM's system time at that TSC, nanoseconds.
    pub system_time_ns: u64,
    /// The rate of the guest's TSC.
    pub scale: PvclockScale,
    /// Not 0: all pages of the VM are given this very pair, and the TSCs of
    /// its CPUs agree.
    pub stable: u8,
}

impl From<&PvclockKvmUpdate> for TimeUpdate {
    fn from(update: &PvclockKvmUpdate) -> Self {
        Self {
            tsc_timestamp: update.tsc_timestamp,
            system_time: Nanos(update.system_time_ns),
            scale: update.scale.into(),
            stable: update.stable != 0,
        }
    }
}

/// The largest time that any reader was given. Set it to 0 once, share it
/// among all readers of a guest's pages, and leave it to them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PvclockLastTime {
    /// Nanoseconds; changed atomically.
    pub ns: LastTime,
}

const _: () = assert!(size_of::<LastTime>() == 8 && align_of::<LastTime>() == 8);

/// A real time, from the wall clock page: UTC, since 1970. Its 32 bits of
/// seconds end in 2106.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockWallClock {
    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: u32,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

impl From<WallClock> for PvclockWallClock {
    fn from(wall_clock: WallClock) -> Self {
        Self { seconds: wall_clock.seconds, nanoseconds: wall_clock.nanoseconds }
    }
}

impl From<PvclockWallClock> for WallClock {
    fn from(wall_clock: PvclockWallClock) -> Self {
        Self { seconds: wall_clock.seconds, nanoseconds: wall_clock.nanoseconds }
    }
}

/// A counter's rate in fixed point: ns = ((cycles * 2^shift) * mul) / 2^32,
/// where a negative shift is a shift to the right.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockScale {
    /// The fraction; 2^31 or more in a scale made from a frequency.
    pub mul: u32,
    /// The power of two that cycles are multiplied by first.
    pub shift: i8,
}

impl From<Scale> for PvclockScale {
    fn from(scale: Scale) -> Self {
        Self { mul: scale.mul(), shift: scale.shift() }
    }
}

impl From<PvclockScale> for Scale {
    fn from(scale: PvclockScale) -> Self {
        Self::from_parts(scale.mul, scale.shift)
    }
}

#[cfg(test)]
mod tests {
    use pvclock::kvm_clock::Flags;

    use super::*;

    #[test]
    fn the_flags_are_those_of_the_page() {
        assert_eq!(PVCLOCK_KVM_TSC_STABLE, Flags::TSC_STABLE.0);
        assert_eq!(PVCLOCK_KVM_GUEST_STOPPED, Flags::GUEST_STOPPED.0);
        assert_eq!(PVCLOCK_KVM_COUNTS_FROM_ZERO, Flags::COUNTS_FROM_ZERO.0);
    }
}
