//! The frequencies of the two counters in the watchdog's lines.

use facts::kernel::LogEvent;
use instruments::figures;

use crate::case::Case;
use crate::case::trust::{named_hz, page_hz};

/// The ACPI PM timer's frequency, the same on all machines.
pub(super) const ACPI_PM_HZ: f64 = 3_579_545.0;

/// The frequency of most HPETs, of those in Intel's chip sets since 2015, of those in its
/// servers since 2023, and of QEMU's (hw/timer/hpet.c, HPET_CLK_PERIOD).
pub(super) const HPET_HZ: [f64; 4] = [14_318_180.0, 24_000_000.0, 25_000_000.0, 100_000_000.0];

/// What counts half a second at QEMU's rate counts 3.5 s at the usual one, which a late
/// check may have found.
const ON_TIME_HZ: &[f64] = HPET_HZ.split_at(2).0;

/// The length of the watchdog's interval when it is on time, s
/// (kernel/time/clocksource.c, WATCHDOG_INTERVAL), and a little longer.
const ON_TIME_S: std::ops::Range<f64> = 0.4..0.65;

/// A frequency, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CounterRate {
    pub(super) hz: f64,
    pub(super) from: From,
}

/// Where a frequency is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The kernel's log.
    Log,
    /// The kvm-clock page.
    Page,
    /// CPUID.
    Cpuid,
    /// The name of the CPU in /proc/cpuinfo.
    CpuName,
    /// The log's lines about a CPU's name or BogoMIPS.
    CpuLines,
    /// CONFIG_HZ.
    Configuration,
    /// The counter's specification.
    Fixed,
    /// That of most such counters.
    Assumed,
    /// That of some such counters, by which it agrees with the TSC.
    Fitted,
}

impl From {
    /// How far the frequency may be off, as a part of it.
    pub(super) fn tolerance(self) -> f64 {
        match self {
            Self::Log | Self::Page | Self::Configuration | Self::Fixed => 2e-3,
            Self::Cpuid | Self::CpuName | Self::CpuLines | Self::Assumed | Self::Fitted => 1e-2,
        }
    }
}

impl CounterRate {
    /// `2.600 GHz by CPUID`
    pub(super) fn in_words(&self) -> String {
        let from = match self.from {
            From::Log => "from the kernel log",
            From::Page => "from the kvm-clock page",
            From::Cpuid => "from CPUID",
            From::CpuName => "from the CPU's name",
            From::CpuLines => "from the log's lines about the CPU",
            From::Configuration => "from CONFIG_HZ",
            From::Fixed => "by specification",
            From::Assumed => "assumed, as most have it; not in the log",
            From::Fitted => "assumed, as some have it and it fits; not in the log",
        };
        format!("{} {from}", figures::hz(self.hz))
    }
}

/// The rate that tsc-early has until the kernel refines it.
pub(super) fn detected(case: &Case<'_>) -> Option<CounterRate> {
    let log = case.log().ok()?;
    let hz = log.iter().find_map(|line| match line.event {
        LogEvent::TscFrequency { hz, refined: false } => Some(hz as f64),
        _ => None,
    });
    hz.map(|hz| CounterRate { hz, from: From::Log })
}

/// A CPU's nominal rate in the log, by its name or its BogoMIPS.
fn logged_nominal(case: &Case<'_>) -> Option<f64> {
    let log = case.log().ok()?;
    let rates = log.iter().filter_map(|line| match line.event {
        LogEvent::CpuRate { hz } => Some((hz, line.text.contains("BogoMIPS"))),
        _ => None,
    });
    // BogoMIPS are calibrated.
    rates.max_by_key(|(_, is_calibrated)| *is_calibrated).map(|(hz, _)| hz as f64)
}

/// The TSC's rate, from the best source there is.
pub(super) fn tsc(case: &Case<'_>) -> Option<CounterRate> {
    let rate = |from, hz: Option<f64>| hz.map(|hz| CounterRate { hz, from });
    rate(From::Log, case.kernel_tsc_hz().map(|hz| hz as f64))
        .or_else(|| rate(From::Page, case.pvclock_page().ok().and_then(page_hz)))
        .or_else(|| rate(From::Cpuid, case.cpuid_tsc_hz().ok().map(|hz| *hz as f64)))
        .or_else(|| rate(From::CpuName, named_hz(case)))
        .or_else(|| rate(From::CpuLines, logged_nominal(case)))
}

/// The rate of the reference `name`, which counted `ticks`.
pub(super) fn reference(case: &Case<'_>, name: &str, ticks: u64) -> Option<CounterRate> {
    let rate = |from, hz| Some(CounterRate { hz, from });
    match name {
        "acpi_pm" => rate(From::Fixed, ACPI_PM_HZ),
        "hpet" => match hpet_hz(case) {
            Some(hz) => rate(From::Log, hz),
            None => {
                let on_time = |hz: &f64| ON_TIME_S.contains(&(ticks as f64 / hz));
                let on_time = ON_TIME_HZ.iter().copied().find(on_time);
                rate(From::Assumed, on_time.unwrap_or(HPET_HZ[0]))
            }
        },
        // Their pages count ns (pvclock.c) and 100 ns (hyperv_timer.c).
        "kvm-clock" | "xen" => rate(From::Fixed, 1e9),
        "hyperv_clocksource" | "hyperv_clocksource_tsc_page" | "hyperv_clocksource_msr" => {
            rate(From::Fixed, 1e7)
        }
        "jiffies" | "refined-jiffies" => match case.tick_hz() {
            Some(hz) => rate(From::Configuration, hz),
            None => rate(From::Fitted, tick_hz(ticks)?),
        },
        _ => None,
    }
}

/// The watchdog's timer counts the same ticks, half a second of them (WATCHDOG_INTERVAL is
/// HZ >> 1), which gives HZ.
fn tick_hz(ticks: u64) -> Option<f64> {
    let on_time = |hz: &f64| ON_TIME_S.contains(&(ticks as f64 / hz));
    [100.0, 250.0, 300.0, 1000.0].into_iter().find(on_time)
}

/// The reference's rate, where its specification or the log gives it.
pub(super) fn known_reference_hz(case: &Case<'_>, name: &str) -> Option<f64> {
    reference(case, name, 0)
        .filter(|rate| matches!(rate.from, From::Fixed | From::Log))
        .map(|rate| rate.hz)
}

/// Other rates that the reference may have had, where its own is but assumed.
pub(super) fn alternatives(assumed: CounterRate) -> impl Iterator<Item = CounterRate> {
    let others = HPET_HZ.into_iter().filter(move |hz| *hz != assumed.hz);
    let others = others.filter(move |_| assumed.from == From::Assumed);
    others.map(|hz| CounterRate { hz, from: From::Fitted })
}

/// `hpet0: 3 comparators, 64-bit 14.318180 MHz counter`, which its driver prints
/// (drivers/char/hpet.c), or else by its clock source.
fn hpet_hz(case: &Case<'_>) -> Option<f64> {
    let by_driver = case.log().ok()?.iter().find_map(|line| {
        let (head, _) = line.text.split_once(" MHz counter")?;
        let mhz: f64 = head.rsplit(' ').next()?.parse().ok()?;
        (mhz > 0.0).then_some(mhz * 1e6)
    });
    by_driver.or_else(|| case.hpet_period_ns().map(|ns| (1e9 / ns).round()))
}
