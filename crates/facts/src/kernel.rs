//! The kernel: version, command line, configuration, and what it logged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::kernel::catalogue::CATALOGUE;
use crate::{Fact, Unknown};

pub use self::event::{Direction, LogEvent};

pub mod catalogue;
mod encoding;
mod event;
mod line;
pub mod pasted;
mod plain;
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
    /// together); each run of others is [`WITHHELD`].
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

/// Options that decide which clocks a kernel has and how it uses them.
const OPTIONS: &str = "
    CLOCKSOURCE_VALIDATE_LAST_CYCLE CLOCKSOURCE_WATCHDOG
    CLOCKSOURCE_WATCHDOG_MAX_SKEW_US CPU_IDLE CPU_IDLE_GOV_HALTPOLL
    HALTPOLL_CPUIDLE HIGH_RES_TIMERS HPET HPET_TIMER HYPERV HYPERV_TIMER
    HYPERV_UTILS HYPERVISOR_GUEST HZ HZ_PERIODIC IA32_EMULATION KVM
    KVM_CLOCK KVM_GUEST NO_HZ NO_HZ_COMMON NO_HZ_FULL NO_HZ_IDLE PARAVIRT
    PARAVIRT_CLOCK PARAVIRT_SPINLOCKS PARAVIRT_TIME_ACCOUNTING PARAVIRT_XXL
    PREEMPT PREEMPT_DYNAMIC PREEMPT_RT PTP_1588_CLOCK PTP_1588_CLOCK_KVM
    PTP_1588_CLOCK_VMCLOCK PTP_1588_CLOCK_VMW RTC_CLASS RTC_DRV_CMOS
    RTC_HCTOSYS RTC_SYSTOHC VIRT_CPU_ACCOUNTING_GEN VMGENID X86_PM_TIMER
    X86_TSC XEN XEN_PV
";

/// The kept part of a configuration: options that concern time and are set.
pub fn reduce_configuration(text: &str) -> String {
    let mut kept = String::new();
    for (name, value) in options(text) {
        kept.push_str(&format!("CONFIG_{name}={value}\n"));
    }
    kept
}

/// The options that are set.
pub fn parse_configuration(text: &str) -> Fact<BTreeMap<String, String>> {
    let options: BTreeMap<_, _> =
        options(text).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if options.is_empty() {
        let expected = "options of a kernel, such as `CONFIG_HZ=250`";
        return Fact::Unknown(Unknown::malformed("parachron/kernel-config", expected, text));
    }
    Fact::Known(options)
}

fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("CONFIG_")?.split_once('=')?;
        OPTIONS.split_whitespace().any(|option| option == name).then_some((name, value))
    })
}

/// More lines about clocks than any boot writes; the last ones matter.
const MAX_LINES: usize = 2000;

/// The kept part of the log: the lines of the last boot that are about
/// clocks, in the form `[seconds] text`, without host name, process names or
/// anything else of the machine's owner.
pub fn reduce_log(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for line in log.lines() {
        let header = line::split(line);
        // Parsed as it will be read again: a name may resemble a clock.
        let text = without_names(header.text);
        match CATALOGUE.read(&text, Some("kernel")).event {
            _ if header.program.is_some_and(|program| program != "kernel") => {}
            // A log file spans many boots, each with its own clocks.
            Some(LogEvent::Boot { .. }) => kept.clear(),
            Some(_) => kept.push(match header.at_s {
                Some(at_s) => format!("[{at_s:12.6}] {text}\n"),
                None => format!("{text}\n"),
            }),
            None => {}
        }
    }
    kept.split_off(kept.len().saturating_sub(MAX_LINES)).concat()
}

/// The lines about clocks, in order.
pub fn parse_log(log: &str) -> Fact<Vec<LogLine>> {
    let lines = log.lines().filter_map(|line| {
        let header = line::split(line);
        let event = CATALOGUE.read(header.text, header.program).event?;
        let is_line = !matches!(event, LogEvent::Boot { .. });
        is_line.then(|| LogLine { at_s: header.at_s, text: header.text.to_owned(), event })
    });
    Fact::Known(lines.collect())
}

/// A soft lockup names the program that ran: `stuck for 22s! [name:123]`.
fn without_names(text: &str) -> Cow<'_, str> {
    match (text.find("! ["), text.ends_with(']')) {
        (Some(start), true) => Cow::Owned(format!("{}! [withheld]", &text[..start])),
        _ => Cow::Borrowed(text),
    }
}

/// Replaces words that do not concern time, which may hold keys, addresses or
/// passwords for an installer.
pub const WITHHELD: &str = "withheld";

/// Parameters that bear on time, by their name before `=`
/// (Documentation/admin-guide/kernel-parameters.txt): clock sources, ticks,
/// power states, what steals time from a CPU, and what a system call costs.
const NAMES: &str = "
    acpi acpi_no_watchdog acpi_pm_good apic clock clocksource
    clocksource_failover disable_timer_pin_1 divider enable_timer_pin_1
    highres hlt hpet idle independent_wallclock intel_pstate amd_pstate
    isolcpus lapic lapic_timer_c2_ok lapictimer lockdown lpj maxcpus
    mem_sleep_default mitigations noacpi noapic noapictimer nohlt nohpet
    nohz nohz_full no-kvmclock no-kvmclock-vsyscall no-steal-acc
    no_timer_check nolapic nolapic_timer nopv nopvspin nosmp nosmt
    nosoftlockup nospectre_v2 notsc nowatchdog nr_cpus nmi_watchdog pci
    pmtmr preempt processor pti nopti quiet report_lost_ticks rtc skew_tick
    softlockup_panic spectre_v2 threadirqs tick trace_clock tsc tsc_sync
    tsc_early_khz vdso vdso32 vsyscall watchdog_thresh x2apic nox2apic xen
    xen_nopv xen_timer_slop
";

/// Modules and subsystems whose every parameter (`module.name`) bears on time.
const PREFIXES: &str = "
    clocksource. cpufreq. cpuidle. cpuidle_haltpoll. haltpoll. hv_utils.
    hv_vmbus. intel_idle. kvm. kvm_amd. kvm_intel. processor. ptp_kvm. rcu
    rtc_cmos. tsc. watchdog. xen.
";

/// The kept part of `/proc/cmdline`: the words that concern time, in order;
/// each run of others becomes one word, [`WITHHELD`]. What follows `--` is
/// for the first program, not for the kernel.
pub fn reduce_command_line(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ours = true;
    for word in words(text) {
        ours &= word != "--";
        let keep = if ours && concerns_time(word) { word } else { WITHHELD };
        if keep != WITHHELD || kept.last() != Some(&WITHHELD) {
            kept.push(keep);
        }
    }
    kept.join(" ") + "\n"
}

/// The words of a command line, quotes kept together as the kernel does.
pub fn parse_command_line(text: &str) -> Fact<Vec<String>> {
    Fact::Known(words(text).into_iter().map(str::to_owned).collect())
}

fn words(text: &str) -> Vec<&str> {
    let mut quoted = false;
    // The end of the line is no part of a word whose quotes stay open.
    text.trim_end()
        .split(|c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        })
        .filter(|word| !word.is_empty())
        .collect()
}

fn concerns_time(word: &str) -> bool {
    // To the kernel, dashes and underscores in names are the same.
    let plain = |name: &str| name.trim_matches('"').replace('-', "_");
    let name = plain(word.split('=').next().unwrap_or_default());
    NAMES.split_whitespace().any(|known| plain(known) == name)
        || PREFIXES.split_whitespace().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
