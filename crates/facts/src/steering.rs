//! The clock's discipline: adjtimex and the time daemons.

pub mod chrony_config;
mod chrony_tracking;
pub mod ntp_config;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::parse::Fields;
use crate::{Fact, Unknown};
pub use chrony_tracking::{ChronyTracking, parse_tracking, reduce_tracking};

/// The result of `adjtimex`, in plain units.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Adjtimex {
    /// Offset still to be slewed, ns.
    pub offset_ns: i64,
    /// The offset that the kernel gave in place of `offset_ns`, µs, where it
    /// is wrong by 2^32 ns ([`miscast`]); this is what monitoring shows.
    pub miscast_offset_us: Option<i64>,
    /// Frequency correction in force, ppm.
    pub frequency_ppm: f64,
    /// Largest error the kernel assumes, µs.
    pub max_error_us: i64,
    /// Estimated error, µs.
    pub estimated_error_us: i64,
    /// Status bits as the kernel gives them (`STA_*`).
    pub status: u32,
    /// Microseconds a tick; 10000 unless a daemon slews by it.
    pub tick_us: i64,
    /// TAI minus UTC, s; 0 when not set.
    pub tai_s: i32,
    /// The call's return: 0 ok, 1 insert, 2 delete, 3 in, 4 after a leap
    /// second, 5 not synchronised.
    pub state: i32,
    /// Fields that a capture lacks, by their names there; their values here mean nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_given: Vec<String>,
}

impl Adjtimex {
    /// STA_PLL: the kernel's phase-locked loop is on.
    pub const STA_PLL: u32 = 0x1;
    /// STA_INS: a leap second will be inserted.
    pub const STA_INS: u32 = 0x10;
    /// STA_DEL: a leap second will be deleted.
    pub const STA_DEL: u32 = 0x20;
    /// STA_UNSYNC: the clock is not synchronised.
    pub const STA_UNSYNC: u32 = 0x40;
    /// STA_NANO: offsets are in nanoseconds.
    pub const STA_NANO: u32 = 0x2000;

    /// Whether a capture has this field.
    pub fn gives(&self, field: &str) -> bool {
        !self.not_given.iter().any(|name| name == field)
    }

    /// Whether a status bit is set.
    pub fn has(&self, bit: u32) -> bool {
        self.status & bit != 0
    }
}

/// A program that sets or disciplines the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeKeeper {
    /// Which one.
    pub kind: TimeKeeperKind,
    /// Its binary is installed.
    pub installed: bool,
    /// Its process runs now and may set the clock; for hv_utils, its driver
    /// runs.
    pub running: bool,
    /// The systemd unit that its process is of, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its unit alone shows that it runs: whether its processes may set the clock
    /// cannot be read (`hidepid`, proc(5)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_unit_alone: bool,
    /// A process of it runs and leaves the clock alone: it was started so (`chronyd -x`), or has
    /// no right to set the clock, as in a container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_clock: bool,
}

impl TimeKeeper {
    /// One that is installed, and of which no process was seen.
    pub fn installed(kind: TimeKeeperKind) -> Self {
        let (running, by_unit_alone, leaves_clock) = (false, false, false);
        Self { kind, installed: true, running, unit: None, by_unit_alone, leaves_clock }
    }

    /// What people call it, with its unit where that is known: `chronyd
    /// (chrony.service)`.
    pub fn program_and_unit(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.kind.program()),
            None => self.kind.program().to_owned(),
        }
    }
}

/// Programs known to set or discipline the clock.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
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
    /// ClockBound's daemon, from release 3
    Clockbound,
    /// connmand
    Connman,
    /// htpdate
    Htpdate,
    /// ptp4l/phc2sys
    LinuxPtp,
    /// VBoxService
    VirtualBoxService,
    /// vmtoolsd, open-vm-tools
    VmwareTools,
    /// qemu-ga
    QemuGuestAgent,
    /// Google's guest agent, whose clock skew daemon runs hwclock after a migration
    GoogleGuestAgent,
    /// hv_utils' time synchronisation
    HypervUtils,
    /// parachron keep, where it corrects the kernel's clock by itself
    ParachronKeep,
}

/// The clock's discipline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Steering {
    /// The kernel's view.
    pub adjtimex: Fact<Adjtimex>,
    /// Programs found installed or running.
    pub keepers: Fact<Vec<TimeKeeper>>,
    /// chronyd's tracking report.
    pub chrony: Fact<ChronyTracking>,
    /// chronyd's configuration.
    pub chrony_config: Fact<chrony_config::ChronyConfig>,
    /// ntpd's and timesyncd's configuration.
    pub ntp_configs: Fact<Vec<ntp_config::NtpConfig>>,
    /// Conditions of time daemons' units, and whether they are masked or enabled:
    /// `chronyd.service ConditionCapability=CAP_SYS_TIME`, `ntp.service masked`.
    pub unit_conditions: Fact<Vec<String>>,
    /// Monitoring programs that read adjtimex's offset: `node_exporter`.
    pub offset_readers: Fact<Vec<String>>,
}

/// The lines of `parachron/offset-readers`.
pub fn parse_offset_readers(text: &str) -> Fact<Vec<String>> {
    Fact::Known(
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect(),
    )
}

const ADJTIMEX: &str = "parachron/adjtimex";
const KEEPERS: &str = "parachron/time-keepers";

/// `timex.freq` is in units of 2^-16 ppm (`man 2 adjtimex`).
const FREQUENCY_UNIT_PPM: f64 = 1.0 / 65536.0;

/// The largest offset that the kernel slews, ns (MAXPHASE,
/// include/linux/timex.h).
const MAX_OFFSET_NS: i64 = 500_000_000;

/// The true offset behind one that the kernel cast wrongly, ns: it took a
/// negative offset in nanoseconds for an unsigned one of 32 bits before
/// dividing by 1000 (kernel/time/ntp.c, cured by f5807b0606da, "ntp: Remove
/// invalid cast in time offset math", of December 2024).
///
/// ```
/// use facts::steering::miscast;
/// // −1 ms becomes (2^32 − 1 000 000) / 1000 = 4 293 967 µs.
/// assert_eq!(miscast(4_293_967), Some(-1_000_296));
/// assert_eq!(miscast(499_000), None);
/// ```
pub fn miscast(given_us: i64) -> Option<i64> {
    let true_ns = given_us.checked_mul(1000)? - (1 << 32);
    (-MAX_OFFSET_NS - 1000..0).contains(&true_ns).then_some(true_ns)
}

/// The fields of `parachron/adjtimex`, which are in the kernel's units. What somebody quoted may
/// lack some.
pub fn parse_adjtimex(text: &str) -> Fact<Adjtimex> {
    let fields = Fields::new(ADJTIMEX, text);
    let names = ["offset", "frequency", "maxerror", "esterror", "status", "tick", "tai", "state"];
    let not_given: Vec<_> =
        names.iter().filter(|name| fields.word(name).is_none()).map(|&name| name.into()).collect();
    if not_given.len() == names.len() {
        return Fact::Unknown(Unknown::malformed(ADJTIMEX, "a field `status`", text));
    }
    let parse = || {
        let number = |name| fields.optional(name).map(Option::unwrap_or_default);
        let status = fields.optional("status")?.unwrap_or_default();
        let offset = number("offset")?;
        // Without STA_NANO the offset is in microseconds.
        let nanoseconds = status & Adjtimex::STA_NANO != 0;
        let miscast_ns = if nanoseconds { None } else { miscast(offset) };
        let given_ns = offset.saturating_mul(if nanoseconds { 1 } else { 1000 });
        Ok(Adjtimex {
            offset_ns: miscast_ns.unwrap_or(given_ns),
            miscast_offset_us: miscast_ns.map(|_| offset),
            frequency_ppm: number("frequency")? as f64 * FREQUENCY_UNIT_PPM,
            max_error_us: number("maxerror")?,
            estimated_error_us: number("esterror")?,
            status,
            tick_us: number("tick")?,
            tai_s: fields.optional("tai")?.unwrap_or_default(),
            state: fields.optional("state")?.unwrap_or_default(),
            not_given,
        })
    };
    parse().into()
}

/// Whether it may be a unit's name: of those characters that systemd allows, without the
/// backslash, so that it can stand in a command (`VALID_CHARS`, src/basic/unit-name.c).
pub fn is_unit_name(name: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.@".contains(&byte);
    (1..256).contains(&name.len()) && !name.starts_with('-') && name.bytes().all(is_char)
}

/// The lines of `parachron/time-keepers`: a name, then `installed`,
/// `running` or both, and perhaps `unit=NAME`, `by-unit-alone` and `leaves-clock`. No line
/// means that none was found.
pub fn parse_keepers(text: &str) -> Fact<Vec<TimeKeeper>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let kind = TimeKeeperKind::from_name(words.next()?)?;
        let words: Vec<_> = words.collect();
        let (installed, running) = (words.contains(&"installed"), words.contains(&"running"));
        let by_unit_alone = running && words.contains(&"by-unit-alone");
        let leaves_clock = words.contains(&"leaves-clock");
        let unit = words.iter().find_map(|word| word.strip_prefix("unit=")).map(str::to_owned);
        let is_good =
            (installed || running || leaves_clock) && unit.as_deref().is_none_or(is_unit_name);
        is_good.then_some(TimeKeeper {
            kind,
            installed,
            running,
            unit,
            by_unit_alone,
            leaves_clock,
        })
    };
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|text| {
            let expected = "a line such as `chrony installed running`";
            line(text).ok_or_else(|| Unknown::malformed(KEEPERS, expected, text))
        })
        .collect::<Result<Vec<_>, _>>()
        .into()
}

impl TimeKeeperKind {
    /// All of them.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Its name in captured trees, the same as in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What people call it: mostly the daemon's program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Chrony => "chronyd",
            Self::Ntpd => "ntpd",
            Self::SystemdTimesyncd => "systemd-timesyncd",
            Self::NtpdRs => "ntpd-rs",
            Self::Openntpd => "OpenNTPD",
            Self::Clockbound => "clockbound",
            Self::Connman => "connmand",
            Self::Htpdate => "htpdate",
            Self::LinuxPtp => "linuxptp",
            Self::VirtualBoxService => "VBoxService",
            Self::VmwareTools => "vmtoolsd",
            Self::QemuGuestAgent => "qemu-ga",
            Self::GoogleGuestAgent => "google_guest_agent",
            Self::HypervUtils => "hv_utils",
            Self::ParachronKeep => "parachron keep",
        }
    }

    /// Whether it corrects the clock continuously. Guest tools set it at the host's
    /// request, to the time that a keeper would set; of two keepers the second finds the
    /// first's file locked.
    pub fn disciplines(self) -> bool {
        match self {
            Self::Chrony
            | Self::Ntpd
            | Self::SystemdTimesyncd
            | Self::NtpdRs
            | Self::Openntpd
            | Self::Clockbound
            | Self::Connman
            | Self::Htpdate
            | Self::LinuxPtp
            | Self::VirtualBoxService => true,
            Self::VmwareTools
            | Self::QemuGuestAgent
            | Self::GoogleGuestAgent
            | Self::HypervUtils
            | Self::ParachronKeep => false,
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests;
