//! Clocks other than the kernel's: RTC, PHC, VMClock, the pvclock page, KVM.

mod phc;

use schemars::JsonSchema;
use serde::Serialize;

use super::parse::Fields;
use crate::kernel::WITHHELD;
use crate::{Fact, Unknown};

pub use phc::{Phc, PhcDriver, PhcTime, link_of};

/// The kernel's name of the first device (drivers/ptp/ptp_vmclock.c).
pub const VMCLOCK: &str = "/dev/vmclock0";

/// The file that records whether the RTC holds UTC or local time.
pub const ADJTIME: &str = "/etc/adjtime";

/// The RTC (battery-backed clock).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rtc {
    /// Devices below `/sys/class/rtc`.
    pub devices: Fact<Vec<RtcDevice>>,
    /// Line 3 of `/etc/adjtime`.
    pub convention: Fact<RtcConvention>,
    /// RTC minus system time, s, taken in UTC (resolution 1 s).
    pub minus_system_s: Fact<i64>,
}

/// One RTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RtcDevice {
    /// `rtc0`
    pub device: String,
    /// `rtc_cmos 00:04`; empty where unreadable.
    pub name: String,
    /// The kernel set its time from this one at boot.
    pub hctosys: bool,
}

/// Which time an RTC holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtcConvention {
    /// UTC
    Utc,
    /// Local time, as some other systems have it
    Local,
}

/// The VMClock page, where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VmClock {
    /// `/dev/vmclock0`
    pub device: String,
    /// Changes when the counter is disrupted.
    pub disruption_marker: u64,
    /// Changes at a snapshot restore, where the host counts it.
    pub vm_generation: Option<u64>,
    /// 0 unknown, 1 initialising, 2 synchronised, 3 free running, 4 unreliable.
    pub clock_status: u8,
}

/// The kvm-clock page that this kernel reads, or would read under clock source
/// kvm-clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KvmHost {
    /// `KVM_GET_CLOCK`'s clock in a VM made for this probe, ns.
    pub clock_ns: u64,
    /// Its flags: 2 TSC stable, 4 realtime valid, 8 host TSC valid.
    pub flags: u32,
    /// `KVM_GET_TSC_KHZ`, in Hz.
    pub tsc_hz: Option<u64>,
    /// `KVM_CAP_TSC_CONTROL`: guests can run at another TSC frequency.
    pub tsc_scaling: bool,
}

/// Line 3 of `/etc/adjtime` (`man 5 adjtime_config`); a file without it means
/// UTC, as does an empty one.
pub fn parse_convention(text: &str) -> Fact<RtcConvention> {
    match text.lines().nth(2).unwrap_or("UTC").trim() {
        "UTC" => Fact::Known(RtcConvention::Utc),
        "LOCAL" => Fact::Known(RtcConvention::Local),
        other => Fact::Unknown(Unknown::malformed(ADJTIME, "`UTC` or `LOCAL` in line 3", other)),
    }
}

/// The kept part of a PTP clock's name: e1000e and igb use the card's hardware
/// address (drivers/net/ethernet/intel/igb/igb_ptp.c, `%pm`).
pub fn reduce_clock_name(text: &str) -> String {
    let name = text.trim();
    let digits = name.replace([':', '-'], "");
    let is_address = digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    format!("{}\n", if is_address { WITHHELD } else { name })
}

/// The fields of `parachron/vmclock`.
pub fn parse_vmclock(text: &str) -> Fact<VmClock> {
    let fields = Fields::new("parachron/vmclock", text);
    let parse = || {
        Ok(VmClock {
            device: fields.word("device").unwrap_or(VMCLOCK).to_owned(),
            disruption_marker: fields.integer("disruption_marker")?,
            vm_generation: fields.optional("vm_generation")?,
            clock_status: fields.integer("clock_status")?,
        })
    };
    parse().into()
}

/// The fields of `parachron/pvclock-page`.
pub fn parse_pvclock_page(text: &str) -> Fact<PvclockPage> {
    let fields = Fields::new("parachron/pvclock-page", text);
    let parse = || {
        Ok(PvclockPage {
            version: fields.integer("version")?,
            tsc_timestamp: fields.integer("tsc_timestamp")?,
            system_time_ns: fields.integer("system_time_ns")?,
            tsc_to_system_mul: fields.integer("tsc_to_system_mul")?,
            tsc_shift: fields.integer("tsc_shift")?,
            flags: fields.integer("flags")?,
        })
    };
    parse().into()
}

/// The fields of `parachron/kvm-host`.
pub fn parse_kvm_host(text: &str) -> Fact<KvmHost> {
    let fields = Fields::new("parachron/kvm-host", text);
    let parse = || {
        let khz: Option<u32> = fields.optional("tsc_khz")?;
        Ok(KvmHost {
            clock_ns: fields.integer("clock_ns")?,
            flags: fields.integer("flags")?,
            tsc_hz: khz.filter(|&khz| khz != 0).map(|khz| u64::from(khz) * 1000),
            tsc_scaling: fields.integer::<u8>("tsc_control")? != 0,
        })
    };
    parse().into()
}

#[cfg(test)]
mod tests;
