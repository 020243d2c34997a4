//! The kernel's clock sources.

use ReadPlace::{Depends, Kernel, UserSpace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Fact, Unknown};

/// The contents of `/sys/devices/system/clocksource/clocksource0`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Clocksources {
    /// Sources one may switch to, in the kernel's order (best rating first); the one
    /// in use may be missing.
    pub available: Fact<Vec<String>>,
    /// The source in use.
    pub current: Fact<String>,
}

/// Path of the file.
pub const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Path of the file.
pub const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The kernel's own limit (`CS_NAME_LEN`, kernel/time/clocksource.c).
const MAX_NAME: usize = 32;

/// The names in `available_clocksource`: none where the timers are of high resolution
/// and no source is fit for them any more, as after the TSC of a machine without
/// another was given up (kernel/time/clocksource.c, `available_clocksource_show`).
pub fn parse_available(text: &str) -> Fact<Vec<String>> {
    let names: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    if !names.iter().all(|name| is_name(name)) {
        return Fact::Unknown(Unknown::malformed(AVAILABLE, "names of clock sources", text));
    }
    Fact::Known(names)
}

/// The name in `current_clocksource`.
pub fn parse_current(text: &str) -> Fact<String> {
    let name = text.trim();
    if !is_name(name) {
        return Fact::Unknown(Unknown::malformed(CURRENT, "the name of a clock source", text));
    }
    Fact::Known(name.to_owned())
}

/// Whether it may be a source's name; which ones exist depends on the kernel.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

// What is known of each of Linux's clock sources, whatever the machine.

/// One of the kernel's clock sources on x86 and arm64.
#[derive(Debug)]
#[non_exhaustive]
pub struct KnownSource {
    /// Its name in /sys.
    pub name: &'static str,
    /// Lowest and highest rating it has had: kernels and machines differ.
    pub ratings: (u32, u32),
    /// Where a call for the time reads it, by the kernel's source code.
    pub place: ReadPlace,
    /// What is read.
    pub read: &'static str,
    /// Finest and coarsest resolution it has on any machine, ns.
    pub resolution_ns: (f64, f64),
    /// What determines the resolution.
    pub resolution_from: &'static str,
}

/// Where a call for the time reads the clock source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPlace {
    /// In the program, by the kernel's vDSO.
    UserSpace,
    /// In the kernel, by a system call.
    Kernel,
    /// One or the other, by kernel and host.
    Depends,
    /// Not known.
    Unknown,
}

/// The slowest TSC of a CPU that runs Linux today, and the fastest.
const TSC_NS: (f64, f64) = (0.15, 2.0);

/// 3 579 545 Hz (ACPI 6.5, 4.8.3.3).
const ACPI_PM_NS: f64 = 1e9 / 3_579_545.0;

/// 105/88 MHz.
const PIT_NS: f64 = 88e3 / 105.0;

/// 1000 Hz to 100 Hz (kernel/Kconfig.hz).
const JIFFIES_NS: (f64, f64) = (1e6, 1e7);

/// All of them, cheapest to read first: the counter alone; the counter scaled
/// by a page; a variable in the kernel's memory; a register that the host
/// emulates.
pub const KNOWN_SOURCES: &[KnownSource] = &[
    // drivers/clocksource/arm_arch_timer.c; from 1 GHz, as the architecture
    // wants since Armv8.6, to its minimum of 1 MHz.
    source(
        "arch_sys_counter",
        (400, 400),
        UserSpace,
        "CNTVCT_EL0",
        (1.0, 1000.0),
        "the counter's period",
    ),
    source("tsc", (300, 300), UserSpace, "RDTSC", TSC_NS, "the TSC's period"),
    source("tsc-early", (299, 299), UserSpace, "RDTSC", TSC_NS, "the TSC's period"),
    // arch/x86/kernel/kvmclock.c: 299 where the TSC is invariant and
    // stable, so that tsc is taken; kernels before 5.1 know 400 only.
    source("kvm-clock", (299, 400), Depends, "page, RDTSC", (1.0, 1.0), "the page's unit"),
    // drivers/clocksource/hyperv_timer.c: 250, 400 and 500 were all used.
    source(
        "hyperv_clocksource_tsc_page",
        (250, 500),
        UserSpace,
        "page, RDTSC",
        (100.0, 100.0),
        "the page's unit",
    ),
    source("xen", (400, 400), Depends, "page, RDTSC", (1.0, 1.0), "the page's unit"),
    source("jiffies", (1, 1), Kernel, "memory", JIFFIES_NS, "1/HZ"),
    source("refined-jiffies", (2, 2), Kernel, "memory", JIFFIES_NS, "1/HZ"),
    source(
        "hyperv_clocksource_msr",
        (250, 500),
        Kernel,
        "MSR",
        (100.0, 100.0),
        "the counter's unit",
    ),
    // IA-PC HPET 1.0a, 2.3.4: a period of at most 100 ns.
    source(
        "hpet",
        (250, 250),
        Kernel,
        "I/O memory",
        (10.0, 100.0),
        "HPETs built so far, and the specification's limit",
    ),
    // 120 on two chip sets of about 2000 whose counter needs three reads
    // (drivers/clocksource/acpi_pm.c).
    source("acpi_pm", (200, 200), Kernel, "I/O port", (ACPI_PM_NS, ACPI_PM_NS), "3.579545 MHz"),
    source("pit", (110, 110), Kernel, "I/O ports", (PIT_NS, PIT_NS), "1.193182 MHz"),
];

const fn source(
    name: &'static str,
    ratings: (u32, u32),
    place: ReadPlace,
    read: &'static str,
    resolution_ns: (f64, f64),
    resolution_from: &'static str,
) -> KnownSource {
    KnownSource { name, ratings, place, read, resolution_ns, resolution_from }
}

/// What is known of the source `name`.
pub fn known_source(name: &str) -> Option<&'static KnownSource> {
    KNOWN_SOURCES.iter().find(|known| known.name == name)
}

/// Its place in the order of cost; an unknown source comes last.
pub fn order_of_cost(name: &str) -> usize {
    KNOWN_SOURCES.iter().position(|known| known.name == name).unwrap_or(KNOWN_SOURCES.len())
}

impl KnownSource {
    /// The largest step in which it advances, ns.
    pub fn coarsest_ns(&self) -> f64 {
        self.resolution_ns.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_names_and_may_be_empty() {
        let known = |text| parse_available(text).value().cloned();
        assert_eq!(known("tsc hpet \n"), Some(vec!["tsc".to_owned(), "hpet".to_owned()]));
        assert_eq!(known("\n"), Some(Vec::new()), "no source is fit for the timers");
        assert_eq!(known("tsc \u{1}\n"), None);
    }
}
