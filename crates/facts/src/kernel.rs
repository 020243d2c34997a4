//! The kernel: version, command line, configuration, and what it logged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Fact;

pub mod command_line;
pub mod configuration;
pub mod event;
pub mod log;
pub mod pasted;
mod signs;
pub mod version;

/// Path of the file.
pub const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The kernel's facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// `6.1.0-18-amd64`, from `/proc/sys/kernel/osrelease`.
    pub release: Fact<String>,
    /// The day it was built, s since 1970.
    pub built_s: Fact<i64>,
    /// Words of `/proc/cmdline` that concern time, in order (quotes kept
    /// together); each run of others is [`command_line::WITHHELD`].
    pub command_line: Fact<Vec<String>>,
    /// Options that concern time (`CONFIG_` left off): `y`, `m`, a number;
    /// an option that is not set is not in the map.
    pub configuration: Fact<BTreeMap<String, String>>,
    /// Lines of the kernel log about clocks, in order.
    pub log: Fact<Vec<LogLine>>,
}

impl Kernel {
    /// Timer ticks a second: CONFIG_HZ.
    pub fn tick_hz(&self) -> Option<f64> {
        let hz: f64 = self.configuration.value()?.get("HZ")?.parse().ok()?;
        (1.0..=10_000.0).contains(&hz).then_some(hz)
    }

    /// The TSC's frequency that the kernel assumes, and where it says so: the last that it
    /// logged, as it refines what it detected.
    pub fn tsc_hz(&self) -> Option<(u64, &LogLine)> {
        self.log.value()?.iter().rev().find_map(|line| match line.event {
            LogEvent::TscFrequency { hz, .. } if hz > 0 => Some((hz, line)),
            _ => None,
        })
    }

    /// The HPET's period, ns, by the last line that registers its clock source.
    pub fn hpet_period_ns(&self) -> Option<f64> {
        self.log.value()?.iter().rev().find_map(|line| hpet_period_ns(&line.text))
    }
}

/// The period of an HPET from the line with which the kernel registers it.
/// `max_idle_ns` is half the duration of `max_cycles` by a multiplier reduced by
/// 11 %, the most that adjtimex may reduce it
/// (kernel/time/clocksource.c, `clocks_calc_max_nsecs`).
///
/// ```text
/// 2 · 19112604467 ns / 0.89 / 0xffffffff = 10.000 ns, 100 MHz: QEMU's
/// ```
fn hpet_period_ns(line: &str) -> Option<f64> {
    let rest = line.strip_prefix("clocksource: hpet: ")?;
    let after = |name: &str| rest.split_once(name)?.1.split([',', ' ']).next();
    let cycles = after("max_cycles: 0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())?;
    let idle_ns: u64 = after("max_idle_ns: ")?.parse().ok()?;
    let period = idle_ns as f64 * 2.0 / 0.89 / cycles as f64;
    (1.0..=100.1).contains(&period).then_some(period)
}

/// One kernel log line about clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Seconds since boot by the kernel's stamp, where it has one.
    pub at_s: Option<f64>,
    /// The line without its stamp.
    pub text: String,
    /// The event it reports.
    pub event: LogEvent,
}

/// A kernel log line's event, as far as it concerns clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum LogEvent {
    /// `Marking clocksource 'tsc' as unstable because …` and similar lines.
    MarkedUnstable {
        /// Which source.
        clocksource: String,
        /// What follows "because", or older kernels' `delta = N ns`.
        because: String,
    },
    /// The watchdog's figures of the interval it checked.
    WatchdogInterval {
        /// `'hpet' wd_nsec: 503… wd_now: …`: the watchdog's source.
        watchdog: bool,
        /// Which source.
        clocksource: String,
        /// Interval by that source, ns, where the line gives it.
        interval_ns: Option<u64>,
    },
    /// `'hpet' wd2_nsec: 512… wd2_now: …`: a second reference, which some
    /// kernels print beside the watchdog's.
    SecondReference {
        /// Which source.
        clocksource: String,
        /// Interval by that source, ns, where the line gives it.
        interval_ns: Option<u64>,
    },
    /// `Clocksource 'tsc' skewed N ns (M ms) over watchdog … interval of …`
    Skew {
        /// Which source.
        clocksource: String,
        /// Skew over the interval, ns, signed.
        skew_ns: i64,
        /// Length of the interval, ns.
        interval_ns: u64,
    },
    /// The watchdog was read too late, or its read was delayed, under load:
    /// `timekeeping watchdog on CPU…: … read-back delay of …`.
    WatchdogDelayed {
        /// Delay, ns, where the line gives it.
        delay_ns: Option<u64>,
    },
    /// The kernel left out messages of its watchdog:
    /// `cs_watchdog_read: N callbacks suppressed`.
    WatchdogSuppressed {
        /// How many.
        messages: u64,
    },
    /// A CPU was added while the system ran: `CPU3 has been hot-added`.
    CpuAdded,
    /// KVM on this host started a guest although the host's TSC is unstable:
    /// `SMP vm created on host with unstable TSC; guest TSC will not be reliable`.
    GuestTscUnreliable,
    /// Hyper-V's time message came late:
    /// `hv_utils: TimeSync: stale time stamp, N nsecs old`.
    HostTimeStale {
        /// Its age, ns.
        age_ns: u64,
    },
    /// `clocksource: Switched to clocksource X`
    Switched {
        /// To which source.
        to: String,
    },
    /// arm64: the frequency of the generic timer's counter, which the kernel
    /// read at boot: `arch_timer: cp15 timer running at 62.50MHz (virt).`
    CounterFrequency {
        /// Rounded to 10 kHz.
        hz: u64,
    },
    /// arm64: the kernel emulates reads of the counter, for an erratum:
    /// `arch_timer: CPU0: Trapping CNTVCT access`.
    CounterTrapped,
    /// `tsc: Detected 2445.428 MHz processor` and the refined calibration.
    TscFrequency {
        /// Hz.
        hz: u64,
        /// Refined against another clock later in boot.
        refined: bool,
    },
    /// `kvm-clock: Using msrs 4b564d01 and 4b564d00`
    KvmClock,
    /// `TSC doesn't count with P0 frequency`, `Fast TSC calibration failed`,
    /// `TSC synchronization … failed`, `TSC_ADJUST` differences.
    TscFault,
    /// The machine was restored from a snapshot or forked:
    /// `random: crng reseeded due to virtual machine fork`.
    Restored,
    /// The machine was suspended: `PM: suspend exit`, `PM: hibernation: hibernation exit`;
    /// one for each time.
    Resumed,
    /// `hrtimer: interrupt took N ns`: the vCPU was paused.
    HrtimerLate {
        /// Duration, ns.
        took_ns: u64,
    },
    /// `Clock: inserting leap second …`, `deleting`.
    LeapSecond,
    /// `rtc_cmos …`, `setting system clock to …`.
    Rtc,
    /// `watchdog: BUG: soft lockup`, `rcu: INFO: … stall`: often a pause.
    Stall,
    /// A time daemon stepped the clock, or stated that it is about to.
    DaemonStepped {
        /// By how much, s: positive where the clock was behind.
        by_s: f64,
    },
    /// chronyd noticed that something else changes this clock.
    ClockInterference,
    /// A time daemon's frequency correction.
    DaemonFrequency {
        /// As the daemon writes it, ppm.
        ppm: f64,
    },
    /// VirtualBox's guest tools saw the host's time jump.
    HostTimeJumped {
        /// By how much, ns.
        by_ns: i64,
    },
    /// A program saw the time of day leap: chronyd's `Forward time jump detected!`,
    /// `Backward time jump detected!`, journald's `Time jumped backwards, rotating.`
    TimeLeapt {
        /// Which way.
        direction: Direction,
    },
    /// chronyd's sources contradict each other: `Can't synchronise: no majority`.
    NoMajority,
    /// chronyd may not set the clock: `Could not step system clock`.
    StepRefused,
    /// ntpd's correction is at its limit:
    /// `frequency error 512 PPM exceeds tolerance 500 PPM`.
    FrequencyBeyondLimit {
        /// As the daemon writes it, ppm.
        ppm: f64,
    },
    /// ntpd finds the kernel's clock unsynchronised: `kernel reports TIME_ERROR: 0x2041`.
    Unsynchronised,
    /// Hyper-V's guest driver set the clock:
    /// `hv_utils: TimeSync - Current {s, ns}; New {s, ns}`.
    HypervisorStepped {
        /// By how much, ns: positive where the clock was behind.
        by_ns: i64,
    },
    /// The kernel counted timer ticks that did not come (2.6):
    /// `time.c: Lost 5 timer tick(s)!`, `Losing some ticks...`, `many lost ticks`.
    TicksLost {
        /// How many, where the line gives it.
        ticks: Option<u64>,
    },
    /// Xen's time was behind what the guest had counted:
    /// `Timer ISR/0: Time went backwards: delta=-118088543`.
    XenBackward {
        /// The difference, ns: negative.
        by_ns: i64,
    },
    /// A test provokes the messages of the watchdog: `clocksource_wdtest: …`,
    /// `clocksource_watchdog_inject_delay(): …`, a probe planted at the reference's read.
    WatchdogTest,
    /// A CPU's nominal rate, by its name or by all CPUs' BogoMIPS.
    CpuRate {
        /// Hz.
        hz: u64,
    },
    /// About clocks, of no known form.
    Other,
}

/// Which way a clock leapt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To a later time.
    Forward,
    /// To an earlier time.
    Backward,
}

#[cfg(test)]
mod tests;
