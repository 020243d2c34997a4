//! Clocks beside the kernel's: RTC, PHC, VMClock, the pvclock page, KVM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// The battery-backed clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rtc {
    /// Devices below `/sys/class/rtc`.
    pub devices: Fact<Vec<RtcDevice>>,
    /// Line 3 of `/etc/adjtime`.
    pub convention: Fact<RtcConvention>,
    /// RTC minus system time, s, taken in UTC (resolution 1 s).
    pub minus_system_s: Fact<i64>,
}

/// One RTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RtcDevice {
    /// `rtc0`
    pub device: String,
    /// `rtc_cmos 00:04`
    pub name: String,
    /// The kernel set its time from this one at boot.
    pub hctosys: bool,
}

/// Which time an RTC holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtcConvention {
    /// UTC
    Utc,
    /// Local time, a habit of other systems
    Local,
}

/// A PTP hardware clock (which a hypervisor may be behind).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phc {
    /// `/dev/ptp0`
    pub device: String,
    /// `KVM virtual PTP`, `hyperv`, `vmclock`, a network card's name.
    pub clock_name: String,
    /// The device file can be opened by this user.
    pub readable: bool,
}

/// The VMClock page, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VmClock {
    /// `/dev/vmclock0`
    pub device: String,
    /// Changes when the counter was disrupted.
    pub disruption_marker: u64,
    /// Changes when restored from a snapshot, where the host counts it.
    pub vm_generation: Option<u64>,
    /// 0 unknown, 1 initialising, 2 synchronised, 3 free running, 4 unreliable.
    pub clock_status: u8,
}

/// The kvm-clock page that this kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PvclockPage {
    /// Twice the number of updates.
    pub version: u32,
    /// TSC at the update.
    pub tsc_timestamp: u64,
    /// Nanoseconds at the update.
    pub system_time_ns: u64,
    /// Multiplier.
    pub tsc_to_system_mul: u32,
    /// Shift.
    pub tsc_shift: i8,
    /// 1 TSC_STABLE, 2 GUEST_STOPPED, 4 COUNTS_FROM_ZERO.
    pub flags: u8,
}

/// This machine as a KVM host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KvmHost {
    /// `KVM_GET_CLOCK`'s clock in a VM made for the question, ns.
    pub clock_ns: u64,
    /// Its flags: 2 TSC stable, 4 realtime valid, 8 host TSC valid.
    pub flags: u32,
    /// `KVM_GET_TSC_KHZ`, in Hz.
    pub tsc_hz: Option<u64>,
    /// `KVM_CAP_TSC_CONTROL`: guests can be given another TSC frequency.
    pub tsc_scaling: bool,
}
