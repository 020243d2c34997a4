//! Values of the VMClock page.

use pvclock::Nanos;
use pvclock::vmclock::{
    CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus, VmClockTime,
};

/// VMClock counter: Arm's virtual counter.
pub const PVCLOCK_VMCLOCK_COUNTER_ARM_VIRTUAL: u8 = 0;
/// VMClock counter: the x86 TSC.
pub const PVCLOCK_VMCLOCK_COUNTER_X86_TSC: u8 = 1;
/// VMClock counter: none; the page gives no time, only its marks.
pub const PVCLOCK_VMCLOCK_COUNTER_INVALID: u8 = 0xff;

/// VMClock time: UTC, since 1970.
pub const PVCLOCK_VMCLOCK_TIME_UTC: u8 = 0;
/// VMClock time: TAI, since 1970.
pub const PVCLOCK_VMCLOCK_TIME_TAI: u8 = 1;
/// VMClock time: monotonic, of no known origin.
pub const PVCLOCK_VMCLOCK_TIME_MONOTONIC: u8 = 2;

/// VMClock status: not stated.
pub const PVCLOCK_VMCLOCK_STATUS_UNKNOWN: u8 = 0;
/// VMClock status: on its way to being synchronised.
pub const PVCLOCK_VMCLOCK_STATUS_INITIALISING: u8 = 1;
/// VMClock status: synchronised.
pub const PVCLOCK_VMCLOCK_STATUS_SYNCHRONISED: u8 = 2;
/// VMClock status: synchronised once, now on its own.
pub const PVCLOCK_VMCLOCK_STATUS_FREE_RUNNING: u8 = 3;
/// VMClock status: the time must not be used.
pub const PVCLOCK_VMCLOCK_STATUS_UNRELIABLE: u8 = 4;

/// VMClock flag: tai_offset_s is valid.
pub const PVCLOCK_VMCLOCK_TAI_OFFSET_VALID: u64 = 1;
/// VMClock flag: a disruption is expected within a day.
pub const PVCLOCK_VMCLOCK_DISRUPTION_SOON: u64 = 2;
/// VMClock flag: a disruption is expected within an hour.
pub const PVCLOCK_VMCLOCK_DISRUPTION_IMMINENT: u64 = 4;
/// VMClock flag: period_est_error is valid.
pub const PVCLOCK_VMCLOCK_PERIOD_EST_ERROR_VALID: u64 = 8;
/// VMClock flag: period_max_error is valid.
pub const PVCLOCK_VMCLOCK_PERIOD_MAX_ERROR_VALID: u64 = 16;
/// VMClock flag: time_est_error_ns is valid.
pub const PVCLOCK_VMCLOCK_TIME_EST_ERROR_VALID: u64 = 32;
/// VMClock flag: time_max_error_ns is valid.
pub const PVCLOCK_VMCLOCK_TIME_MAX_ERROR_VALID: u64 = 64;
/// VMClock flag: time never goes backward across updates.
pub const PVCLOCK_VMCLOCK_TIME_NEVER_BACKWARD: u64 = 128;
/// VMClock flag: vm_generation is there.
pub const PVCLOCK_VMCLOCK_VM_GENERATION_PRESENT: u64 = 256;
/// VMClock flag: the device notifies the guest of each update.
pub const PVCLOCK_VMCLOCK_NOTIFICATION_PRESENT: u64 = 512;

/// Instead of an error bound: the host states none.
pub const PVCLOCK_NO_ERROR_BOUND: u64 = 0xffff_ffff_ffff_ffff;

/// The contents of a VMClock page, taken as one whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockVmclockInfo {
    /// Another value than before: the counter was disrupted (the VM was
    /// migrated or restored), and all that was learnt about it is void.
    pub disruption_marker: u64,
    /// PVCLOCK_VMCLOCK_TAI_OFFSET_VALID and the others after it.
    pub flags: u64,
    /// The counter at the update.
    pub counter_value: u64,
    /// Length of a cycle, in units of 2^-(64 + period_shift) s; 0: the page
    /// gives no time.
    pub period: u64,
    /// The period's estimated error, same unit.
    pub period_est_error: u64,
    /// The period's maximum error, same unit.
    pub period_max_error: u64,
    /// Seconds at the update.
    pub time_sec: u64,
    /// Their fraction, in units of 2^-64 s.
    pub time_frac: u64,
    /// The time's estimated error at the update, nanoseconds.
    pub time_est_error_ns: u64,
    /// The time's maximum error at the update, nanoseconds.
    pub time_max_error_ns: u64,
    /// Another value than before: the VM was restored from a snapshot, and
    /// there may be a twin of it.
    pub vm_generation: u64,
    /// Size of the shared region, bytes: at least 112.
    pub size: u32,
    /// Even; grows by two an update.
    pub seq_count: u32,
    /// UTC - TAI, s: -37 since 2017. Some hosts write 37.
    pub tai_offset_s: i16,
    /// PVCLOCK_VMCLOCK_COUNTER_...: whose cycles these are.
    pub counter_id: u8,
    /// PVCLOCK_VMCLOCK_TIME_...: which time scale this is.
    pub time_type: u8,
    /// PVCLOCK_VMCLOCK_STATUS_...: the state of the host's own clock.
    pub clock_status: u8,
    /// How others nearby smear a leap second: 0 not, 1 noon to noon, 2
    /// UTC-SLS. The page itself never smears.
    pub leap_smearing_hint: u8,
    /// 0 no leap second near, 1 one will be inserted, 2 one will be left out,
    /// 3 it is now, 4 one was inserted, 5 one was left out.
    pub leap_indicator: u8,
    /// The period's unit: see there.
    pub period_shift: u8,
}

impl From<VmClockInfo> for PvclockVmclockInfo {
    fn from(info: VmClockInfo) -> Self {
        Self {
            disruption_marker: info.disruption_marker,
            flags: info.flags.0,
            counter_value: info.counter_value,
            period: info.period,
            period_est_error: info.period_est_error,
            period_max_error: info.period_max_error,
            time_sec: info.time_sec,
            time_frac: info.time_frac,
            time_est_error_ns: info.time_est_error.0,
            time_max_error_ns: info.time_max_error.0,
            vm_generation: info.vm_generation,
            size: info.size,
            seq_count: info.seq_count,
            tai_offset_s: info.tai_offset_s,
            counter_id: info.counter_id.0,
            time_type: info.time_type.0,
            clock_status: info.clock_status.0,
            leap_smearing_hint: info.leap_smearing_hint,
            leap_indicator: info.leap_indicator,
            period_shift: info.period_shift,
        }
    }
}

impl From<&PvclockVmclockInfo> for VmClockInfo {
    fn from(info: &PvclockVmclockInfo) -> Self {
        Self {
            size: info.size,
            counter_id: CounterId(info.counter_id),
            time_type: TimeType(info.time_type),
            seq_count: info.seq_count,
            disruption_marker: info.disruption_marker,
            flags: VmClockFlags(info.flags),
            clock_status: VmClockStatus(info.clock_status),
            leap_smearing_hint: info.leap_smearing_hint,
            tai_offset_s: info.tai_offset_s,
            leap_indicator: info.leap_indicator,
            period_shift: info.period_shift,
            counter_value: info.counter_value,
            period: info.period,
            period_est_error: info.period_est_error,
            period_max_error: info.period_max_error,
            time_sec: info.time_sec,
            time_frac: info.time_frac,
            time_est_error: Nanos(info.time_est_error_ns),
            time_max_error: Nanos(info.time_max_error_ns),
            vm_generation: info.vm_generation,
        }
    }
}

/// A time from a VMClock page.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PvclockVmclockTime {
    /// Whole seconds of the page's time scale, info.time_type. For UTC from TAI
    /// subtract the magnitude of info.tai_offset_s, if
    /// PVCLOCK_VMCLOCK_TAI_OFFSET_VALID is set.
    pub seconds: u64,
    /// Their fraction, in units of 2^-64 s.
    pub fraction: u64,
    /// The truth is at most this far off, either way, nanoseconds;
    /// PVCLOCK_NO_ERROR_BOUND where the host states no bound.
    pub max_error_ns: u64,
    /// The fraction again, in whole nanoseconds.
    pub nanoseconds: u32,
    /// The page as it was read. The time is of the scale time_type, and good
    /// only while clock_status is SYNCHRONISED or FREE_RUNNING.
    pub info: PvclockVmclockInfo,
}

impl From<VmClockTime> for PvclockVmclockTime {
    fn from(time: VmClockTime) -> Self {
        Self {
            seconds: time.seconds,
            fraction: time.fraction,
            max_error_ns: time.max_error.map_or(PVCLOCK_NO_ERROR_BOUND, |bound| bound.0),
            nanoseconds: time.subsecond_nanos(),
            info: time.info.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_page() {
        assert_eq!(PVCLOCK_VMCLOCK_COUNTER_ARM_VIRTUAL, CounterId::ARM_VIRTUAL.0);
        assert_eq!(PVCLOCK_VMCLOCK_COUNTER_X86_TSC, CounterId::X86_TSC.0);
        assert_eq!(PVCLOCK_VMCLOCK_COUNTER_INVALID, CounterId::INVALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_UTC, TimeType::UTC.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_TAI, TimeType::TAI.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_MONOTONIC, TimeType::MONOTONIC.0);
        assert_eq!(PVCLOCK_VMCLOCK_STATUS_UNKNOWN, VmClockStatus::UNKNOWN.0);
        assert_eq!(PVCLOCK_VMCLOCK_STATUS_INITIALISING, VmClockStatus::INITIALISING.0);
        assert_eq!(PVCLOCK_VMCLOCK_STATUS_SYNCHRONISED, VmClockStatus::SYNCHRONISED.0);
        assert_eq!(PVCLOCK_VMCLOCK_STATUS_FREE_RUNNING, VmClockStatus::FREE_RUNNING.0);
        assert_eq!(PVCLOCK_VMCLOCK_STATUS_UNRELIABLE, VmClockStatus::UNRELIABLE.0);
        assert_eq!(PVCLOCK_VMCLOCK_TAI_OFFSET_VALID, VmClockFlags::TAI_OFFSET_VALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_DISRUPTION_SOON, VmClockFlags::DISRUPTION_SOON.0);
        assert_eq!(PVCLOCK_VMCLOCK_DISRUPTION_IMMINENT, VmClockFlags::DISRUPTION_IMMINENT.0);
        assert_eq!(PVCLOCK_VMCLOCK_PERIOD_EST_ERROR_VALID, VmClockFlags::PERIOD_EST_ERROR_VALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_PERIOD_MAX_ERROR_VALID, VmClockFlags::PERIOD_MAX_ERROR_VALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_EST_ERROR_VALID, VmClockFlags::TIME_EST_ERROR_VALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_MAX_ERROR_VALID, VmClockFlags::TIME_MAX_ERROR_VALID.0);
        assert_eq!(PVCLOCK_VMCLOCK_TIME_NEVER_BACKWARD, VmClockFlags::TIME_MONOTONIC.0);
        assert_eq!(PVCLOCK_VMCLOCK_VM_GENERATION_PRESENT, VmClockFlags::VM_GENERATION_PRESENT.0);
        assert_eq!(PVCLOCK_VMCLOCK_NOTIFICATION_PRESENT, VmClockFlags::NOTIFICATION_PRESENT.0);
    }
}
