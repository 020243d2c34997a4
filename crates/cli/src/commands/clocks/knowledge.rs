//! What Linux's clock sources are, whichever machine they are on.

use super::report::{ReadPlace, Resolution};

/// One of the kernel's clock sources on x86.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name in /sys.
    pub(crate) name: &'static str,
    /// Ratings it has had, lowest and highest: kernels and machines differ.
    pub(super) ratings: (u32, u32),
    /// Where the kernel's source has it read.
    pub(super) place: ReadPlace,
    /// What is read.
    pub(super) read: &'static str,
    /// Finest and coarsest resolution it has on any machine, ns.
    pub(super) resolution_ns: (f64, f64),
    /// Where the resolution comes from.
    pub(super) resolution_from: &'static str,
}

/// The slowest TSC of a CPU that runs Linux today, and the fastest.
const TSC_NS: (f64, f64) = (0.15, 2.0);

/// 3 579 545 Hz (ACPI 6.5, 4.8.3.3).
const ACPI_PM_NS: f64 = 1e9 / 3_579_545.0;

/// 105/88 MHz.
const PIT_NS: f64 = 88e3 / 105.0;

/// 1000 Hz to 100 Hz (kernel/Kconfig.hz).
const JIFFIES_NS: (f64, f64) = (1e6, 1e7);

/// By cost, cheapest first: the counter itself; a page that says what it
/// means; a word in the kernel's memory; a register that the host answers for.
pub(super) const KNOWN: &[Known] = &[
    Known {
        name: "tsc",
        ratings: (300, 300),
        place: ReadPlace::UserSpace,
        read: "RDTSC",
        resolution_ns: TSC_NS,
        resolution_from: "the TSC's period",
    },
    Known {
        name: "tsc-early",
        ratings: (299, 299),
        place: ReadPlace::UserSpace,
        read: "RDTSC",
        resolution_ns: TSC_NS,
        resolution_from: "the TSC's period",
    },
    Known {
        name: "kvm-clock",
        // arch/x86/kernel/kvmclock.c: 299 where the TSC is invariant and
        // stable, so that tsc is taken; kernels before 5.1 know 400 only.
        ratings: (299, 400),
        place: ReadPlace::Depends,
        read: "page, RDTSC",
        resolution_ns: (1.0, 1.0),
        resolution_from: "the page's unit",
    },
    Known {
        name: "hyperv_clocksource_tsc_page",
        // drivers/clocksource/hyperv_timer.c: 250, 400 and 500 were all used.
        ratings: (250, 500),
        place: ReadPlace::UserSpace,
        read: "page, RDTSC",
        resolution_ns: (100.0, 100.0),
        resolution_from: "the page's unit",
    },
    Known {
        name: "xen",
        ratings: (400, 400),
        place: ReadPlace::Depends,
        read: "page, RDTSC",
        resolution_ns: (1.0, 1.0),
        resolution_from: "the page's unit",
    },
    Known {
        name: "jiffies",
        ratings: (1, 1),
        place: ReadPlace::Kernel,
        read: "memory",
        resolution_ns: JIFFIES_NS,
        resolution_from: "1/HZ",
    },
    Known {
        name: "refined-jiffies",
        ratings: (2, 2),
        place: ReadPlace::Kernel,
        read: "memory",
        resolution_ns: JIFFIES_NS,
        resolution_from: "1/HZ",
    },
    Known {
        name: "hyperv_clocksource_msr",
        ratings: (250, 500),
        place: ReadPlace::Kernel,
        read: "MSR",
        resolution_ns: (100.0, 100.0),
        resolution_from: "the counter's unit",
    },
    Known {
        name: "hpet",
        ratings: (250, 250),
        place: ReadPlace::Kernel,
        read: "I/O memory",
        // IA-PC HPET 1.0a, 2.3.4: a period of at most 100 ns.
        resolution_ns: (10.0, 100.0),
        resolution_from: "HPETs built so far, and the specification's limit",
    },
    Known {
        name: "acpi_pm",
        // 120 on two chip sets of about 2000 whose counter needs three reads
        // (drivers/clocksource/acpi_pm.c).
        ratings: (200, 200),
        place: ReadPlace::Kernel,
        read: "I/O port",
        resolution_ns: (ACPI_PM_NS, ACPI_PM_NS),
        resolution_from: "3.579545 MHz",
    },
    Known {
        name: "pit",
        ratings: (110, 110),
        place: ReadPlace::Kernel,
        read: "I/O ports",
        resolution_ns: (PIT_NS, PIT_NS),
        resolution_from: "1.193182 MHz",
    },
];

/// What is known of the source so named.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Its place in the order of cost; what is not known comes last.
pub(super) fn order_of_cost(name: &str) -> usize {
    KNOWN.iter().position(|known| known.name == name).unwrap_or(KNOWN.len())
}

impl Known {
    /// The resolution as far as it is the same on all machines.
    pub(super) fn resolution(&self) -> Resolution {
        let (finest_ns, coarsest_ns) = self.resolution_ns;
        Resolution { finest_ns, coarsest_ns, from: self.resolution_from.to_owned() }
    }

    /// The step by which it moves at most, ns.
    pub(crate) fn coarsest_ns(&self) -> f64 {
        self.resolution_ns.1
    }
}
