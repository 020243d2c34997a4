//! Clock sources: how finely they count, and how long a reading takes.

use facts::clocksource::{KnownSource, known_source};
use strum::{IntoStaticStr, VariantArray};

use super::MS;

/// The kernel's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Source {
    Tsc,
    KvmClock,
    /// A timer that the host emulates.
    Hpet,
    #[strum(serialize = "acpi_pm")]
    AcpiPm,
    /// The kernel's own ticks, 250 a second.
    RefinedJiffies,
    /// User-mode Linux: its host's clock.
    Timer,
    /// Xen's page, with a TSC that Xen traps.
    Xen,
}

impl Source {
    pub(crate) const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    pub(crate) fn name(self) -> &'static str {
        self.into()
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

    /// What the sampler knows of it (`facts::clocksource`).
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
