//! What is known of each of Linux's clock sources, whatever the machine.

use schemars::JsonSchema;
use serde::Serialize;

/// One of the kernel's clock sources on x86.
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
    KnownSource {
        name: "tsc",
        ratings: (300, 300),
        place: ReadPlace::UserSpace,
        read: "RDTSC",
        resolution_ns: TSC_NS,
        resolution_from: "the TSC's period",
    },
    KnownSource {
        name: "tsc-early",
        ratings: (299, 299),
        place: ReadPlace::UserSpace,
        read: "RDTSC",
        resolution_ns: TSC_NS,
        resolution_from: "the TSC's period",
    },
    KnownSource {
        name: "kvm-clock",
        // arch/x86/kernel/kvmclock.c: 299 where the TSC is invariant and
        // stable, so that tsc is taken; kernels before 5.1 know 400 only.
        ratings: (299, 400),
        place: ReadPlace::Depends,
        read: "page, RDTSC",
        resolution_ns: (1.0, 1.0),
        resolution_from: "the page's unit",
    },
    KnownSource {
        name: "hyperv_clocksource_tsc_page",
        // drivers/clocksource/hyperv_timer.c: 250, 400 and 500 were all used.
        ratings: (250, 500),
        place: ReadPlace::UserSpace,
        read: "page, RDTSC",
        resolution_ns: (100.0, 100.0),
        resolution_from: "the page's unit",
    },
    KnownSource {
        name: "xen",
        ratings: (400, 400),
        place: ReadPlace::Depends,
        read: "page, RDTSC",
        resolution_ns: (1.0, 1.0),
        resolution_from: "the page's unit",
    },
    KnownSource {
        name: "jiffies",
        ratings: (1, 1),
        place: ReadPlace::Kernel,
        read: "memory",
        resolution_ns: JIFFIES_NS,
        resolution_from: "1/HZ",
    },
    KnownSource {
        name: "refined-jiffies",
        ratings: (2, 2),
        place: ReadPlace::Kernel,
        read: "memory",
        resolution_ns: JIFFIES_NS,
        resolution_from: "1/HZ",
    },
    KnownSource {
        name: "hyperv_clocksource_msr",
        ratings: (250, 500),
        place: ReadPlace::Kernel,
        read: "MSR",
        resolution_ns: (100.0, 100.0),
        resolution_from: "the counter's unit",
    },
    KnownSource {
        name: "hpet",
        ratings: (250, 250),
        place: ReadPlace::Kernel,
        read: "I/O memory",
        // IA-PC HPET 1.0a, 2.3.4: a period of at most 100 ns.
        resolution_ns: (10.0, 100.0),
        resolution_from: "HPETs built so far, and the specification's limit",
    },
    KnownSource {
        name: "acpi_pm",
        // 120 on two chip sets of about 2000 whose counter needs three reads
        // (drivers/clocksource/acpi_pm.c).
        ratings: (200, 200),
        place: ReadPlace::Kernel,
        read: "I/O port",
        resolution_ns: (ACPI_PM_NS, ACPI_PM_NS),
        resolution_from: "3.579545 MHz",
    },
    KnownSource {
        name: "pit",
        ratings: (110, 110),
        place: ReadPlace::Kernel,
        read: "I/O ports",
        resolution_ns: (PIT_NS, PIT_NS),
        resolution_from: "1.193182 MHz",
    },
];

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
