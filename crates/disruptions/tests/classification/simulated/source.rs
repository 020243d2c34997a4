//! Clock sources: how finely they count, and how long a reading takes.

use facts::clocksource::known::{KnownSource, known_source};

use super::MS;

/// The kernel's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Tsc,
    KvmClock,
    /// A timer that the host emulates.
    Hpet,
    AcpiPm,
    /// The kernel's own ticks, 250 a second.
    RefinedJiffies,
    /// User-mode Linux: its host's clock.
    Timer,
    /// Xen's page, with a TSC that Xen traps.
    Xen,
}

impl Source {
    pub(crate) const ALL: [Self; 7] = [
        Self::Tsc,
        Self::KvmClock,
        Self::Hpet,
        Self::AcpiPm,
        Self::RefinedJiffies,
        Self::Timer,
        Self::Xen,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::KvmClock => "kvm-clock",
            Self::Hpet => "hpet",
            Self::AcpiPm => "acpi_pm",
            Self::RefinedJiffies => "refined-jiffies",
            Self::Timer => "timer",
            Self::Xen => "xen",
        }
    }

    /// Its resolution, ns.
    pub(super) fn step_ns(self) -> u64 {
        match self {
            Self::Tsc | Self::KvmClock | Self::Timer | Self::Xen => 1,
            Self::Hpet => 10,
            Self::AcpiPm => 279,
            Self::RefinedJiffies => 4 * MS,
        }
    }

    /// What the sampler knows of it (`facts::clocksource::known`).
    pub(super) fn known_step_ns(self) -> Option<f64> {
        known_source(self.name()).map(KnownSource::coarsest_ns)
    }

    /// From one reading of it to the next, ns.
    pub(super) fn read_ns(self) -> u64 {
        match self {
            Self::Tsc | Self::KvmClock => 20,
            Self::Hpet => 1500,
            Self::AcpiPm => 4000,
            Self::RefinedJiffies => 450,
            Self::Timer => 2500,
            Self::Xen => 30_000,
        }
    }
}
