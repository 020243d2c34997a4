//! Who steers the clock and how it stands: adjtimex and the time daemons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// What `adjtimex` answers, in plain units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Adjtimex {
    /// Offset still to be slewed, ns.
    pub offset_ns: i64,
    /// Frequency correction in force, ppm.
    pub frequency_ppm: f64,
    /// Largest error the kernel assumes, µs.
    pub max_error_us: i64,
    /// Estimated error, µs.
    pub estimated_error_us: i64,
    /// Status bits as the kernel gives them (`STA_*`).
    pub status: u32,
    /// Microseconds a tick; 10000 unless someone slews by it.
    pub tick_us: i64,
    /// TAI − UTC, s; 0 means nobody told the kernel.
    pub tai_s: i32,
    /// The call's return: 0 ok, 1 insert, 2 delete, 3 in, 4 after a leap
    /// second, 5 not synchronised.
    pub state: i32,
}

impl Adjtimex {
    /// STA_PLL: the kernel's own loop is on.
    pub const STA_PLL: u32 = 0x1;
    /// STA_INS: a leap second will be inserted.
    pub const STA_INS: u32 = 0x10;
    /// STA_DEL: a leap second will be deleted.
    pub const STA_DEL: u32 = 0x20;
    /// STA_UNSYNC: nobody vouches for the clock.
    pub const STA_UNSYNC: u32 = 0x40;
    /// STA_CLOCKERR.
    pub const STA_CLOCKERR: u32 = 0x1000;
    /// STA_NANO: offsets are in nanoseconds.
    pub const STA_NANO: u32 = 0x2000;

    /// Whether a status bit is set.
    pub fn has(&self, bit: u32) -> bool {
        self.status & bit != 0
    }
}

/// A program that keeps, or fights over, the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeKeeper {
    /// Which one.
    pub kind: TimeKeeperKind,
    /// Its binary is installed.
    pub installed: bool,
    /// A process (or, for hv_utils, the driver) is there now.
    pub running: bool,
}

/// Programs known to set or steer a clock.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TimeKeeperKind {
    /// chronyd
    Chrony,
    /// ntpd (also ntpsec)
    Ntpd,
    /// systemd-timesyncd
    SystemdTimesyncd,
    /// ntpd-rs (ntp-daemon)
    NtpdRs,
    /// OpenNTPD
    Openntpd,
    /// ptp4l/phc2sys
    LinuxPtp,
    /// VBoxService
    VirtualBoxService,
    /// vmtoolsd, open-vm-tools
    VmwareTools,
    /// qemu-ga
    QemuGuestAgent,
    /// hv_utils' time synchronisation
    HypervUtils,
}

/// `chronyc -c tracking`, in plain units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChronyTracking {
    /// Name or address of the reference, `` when unsynchronised.
    pub reference: String,
    /// Stratum; 0 when unsynchronised.
    pub stratum: u8,
    /// Correction still being applied, s (positive: the clock is slow).
    pub system_offset_s: f64,
    /// Last measured offset, s.
    pub last_offset_s: f64,
    /// Long-term average of the offset, s.
    pub rms_offset_s: f64,
    /// Error the clock would have uncorrected, ppm (positive: fast).
    pub frequency_ppm: f64,
    /// Frequency still to be learnt, ppm.
    pub residual_frequency_ppm: f64,
    /// Bound on the frequency's error, ppm.
    pub skew_ppm: f64,
    /// Root delay, s.
    pub root_delay_s: f64,
    /// Root dispersion, s.
    pub root_dispersion_s: f64,
    /// `Normal`, `Insert second`, `Delete second`, `Not synchronised`.
    pub leap_status: String,
}

/// Who steers this clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steering {
    /// The kernel's view.
    pub adjtimex: Fact<Adjtimex>,
    /// Programs found installed or running.
    pub keepers: Fact<Vec<TimeKeeper>>,
    /// chronyd's own view.
    pub chrony: Fact<ChronyTracking>,
}
