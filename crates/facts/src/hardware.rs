//! Clocks other than the kernel's: RTC, PHC, VMClock, the pvclock page, KVM.

use schemars::JsonSchema;
use serde::Serialize;

use super::parse::Fields;
use crate::kernel::WITHHELD;
use crate::kernel::version::KernelVersion;
use crate::{Fact, Unknown};

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

// PTP hardware clocks: whose they are, and what they count.

/// A PTP hardware clock, which may be a hypervisor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Phc {
    /// `/dev/ptp0`
    pub device: String,
    /// `KVM virtual PTP`, `hyperv`, `vmclock`, a network card's name; empty
    /// where unreadable.
    pub clock_name: String,
    /// The device file can be opened by this user.
    pub readable: bool,
    /// The name that a rule of udev gives it: `/dev/ptp_hyperv`. Numbers can
    /// change at boot, this does not.
    pub link: Option<String>,
}

/// Which driver registered a PTP clock, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcDriver {
    /// drivers/ptp/ptp_kvm_common.c: the host's clock, over a hypercall.
    Kvm,
    /// drivers/hv/hv_util.c: the host's clock, from its samples.
    HyperV,
    /// drivers/ptp/ptp_vmclock.c: the host's clock, from a shared page.
    VmClock,
    /// drivers/ptp/ptp_vmw.c: the host's precision clock.
    Vmware,
    /// drivers/net/ethernet/amazon/ena/ena_phc.c: Amazon's clock, by its card.
    Ena,
    /// drivers/virtio/virtio_rtc_ptp.c: a clock of this type (virtio 1.4, RTC
    /// device).
    Virtio(u8),
    /// A network card's, or not known here.
    Other,
}

/// What a PTP clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhcTime {
    /// UTC, with leap seconds.
    Utc,
    /// TAI: 37 s ahead of UTC since 2017.
    Tai,
    /// UTC whose leap seconds are spread over hours.
    SmearedUtc,
    /// UTC, smeared or not.
    PerhapsSmearedUtc,
    /// Time since some start: no time of day.
    Monotonic,
    /// Nothing says.
    Unknown,
}

/// The first kernel whose driver `vmclock` counts TAI ("ptp: ptp_vmclock:
/// return TAI not UTC", of January 2026; 6.19 was closed by then).
const VMCLOCK_IN_TAI: KernelVersion = KernelVersion { major: 7, minor: 0 };

impl PhcDriver {
    /// By `ptp_clock_info.name`, how it begins. Amazon's is a network card's,
    /// which shows the cloud's time.
    pub fn from_clock_name(clock_name: &str) -> Self {
        // `Virtio PTP type 0/variant 0`
        if let Some(rest) = clock_name.strip_prefix("Virtio PTP type ") {
            let kind = rest.split(['/', ',', ' ']).next().and_then(|word| word.parse().ok());
            return kind.map_or(Self::Other, Self::Virtio);
        }
        let names = [
            ("KVM virtual PTP", Self::Kvm),
            ("hyperv", Self::HyperV),
            ("vmclock", Self::VmClock),
            ("ptp_vmw", Self::Vmware),
            ("ena-ptp", Self::Ena),
        ];
        let named = names.into_iter().find(|(start, _)| clock_name.starts_with(start));
        named.map_or(Self::Other, |(_, driver)| driver)
    }

    /// What its clock counts under a kernel of this version.
    pub fn time(self, kernel: Option<KernelVersion>) -> PhcTime {
        match (self, kernel) {
            (Self::VmClock, None) | (Self::Other, _) => PhcTime::Unknown,
            (Self::VmClock, Some(version)) if version >= VMCLOCK_IN_TAI => PhcTime::Tai,
            (Self::Virtio(kind), _) => match kind {
                0 => PhcTime::Utc,
                1 => PhcTime::Tai,
                2 => PhcTime::Monotonic,
                3 => PhcTime::SmearedUtc,
                4 => PhcTime::PerhapsSmearedUtc,
                _ => PhcTime::Unknown,
            },
            _ => PhcTime::Utc,
        }
    }

    /// Whether its clock is that of a host or cloud, and tells the time of day.
    pub fn is_hosts(self) -> bool {
        self == Self::VmClock || !matches!(self.time(None), PhcTime::Unknown | PhcTime::Monotonic)
    }
}

impl Phc {
    /// The driver behind it.
    pub fn driver(&self) -> PhcDriver {
        PhcDriver::from_clock_name(&self.clock_name)
    }

    /// What it counts under a kernel of this version.
    ///
    /// ```
    /// use facts::hardware::{Phc, PhcTime};
    /// use facts::kernel::version::KernelVersion;
    /// let page = Phc {
    ///     device: "/dev/ptp0".into(),
    ///     clock_name: "vmclock".into(),
    ///     readable: true,
    ///     link: None,
    /// };
    /// let time = |release| page.time(KernelVersion::parse(release));
    /// assert_eq!(time("6.12.9-amd64"), PhcTime::Utc);
    /// assert_eq!(time("7.0.1"), PhcTime::Tai);
    /// assert_eq!(time(""), PhcTime::Unknown);
    /// ```
    pub fn time(&self, kernel: Option<KernelVersion>) -> PhcTime {
        self.driver().time(kernel)
    }

    /// Whether it shows a guest the time of its host or cloud.
    pub fn is_hosts(&self) -> bool {
        self.driver().is_hosts()
    }

    /// The device's lasting name where it has one.
    pub fn path(&self) -> &str {
        self.link.as_deref().unwrap_or(&self.device)
    }
}

/// The lines of `parachron/ptp-links`: the link's name and the device's
/// (`ptp_hyperv ptp0`); of a device's links the first.
pub fn link_of(text: &str, device: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (link, to) = line.trim().split_once(' ')?;
        // It stands in commands, also where a shell's quotes do not help (sed).
        let is_plain = link.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        (to.trim() == device && is_plain).then(|| format!("/dev/{link}"))
    })
}

#[cfg(test)]
mod tests;
