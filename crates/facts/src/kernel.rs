//! The kernel: version, command line, configuration, and what it logged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Fact;

pub use self::event::{Direction, LogEvent};

pub mod catalogue;
pub mod command_line;
pub mod configuration;
mod encoding;
mod event;
mod line;
pub mod log;
pub mod pasted;
pub mod version;

/// Path of the file.
pub const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The kernel's facts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LogLine {
    /// Seconds since boot by the kernel's stamp, where it has one.
    pub at_s: Option<f64>,
    /// The line without its stamp.
    pub text: String,
    /// The event it reports.
    pub event: LogEvent,
}

#[cfg(test)]
mod tests;
