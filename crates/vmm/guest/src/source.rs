//! The clocks a guest can read.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The time stamp counter by its advertised frequency, or the measured one
    /// where none is advertised.
    Tsc,
    /// kvm-clock's page.
    KvmClock,
    /// Hyper-V's reference TSC page.
    HyperVPage,
    /// Hyper-V's reference counter, an MSR.
    HyperVCounter,
    /// The ACPI power management timer.
    AcpiPm,
    /// The HPET's main counter.
    Hpet,
    /// The PIT's channel 2.
    Pit,
    /// The CMOS real-time clock, at the moment its second changes.
    Rtc,
}

impl Source {
    /// All of them, the cheapest first.
    pub const ALL: [Self; 8] = [
        Self::Tsc,
        Self::KvmClock,
        Self::HyperVPage,
        Self::HyperVCounter,
        Self::AcpiPm,
        Self::Hpet,
        Self::Pit,
        Self::Rtc,
    ];

    /// Its usual name; Linux's clocksource where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::KvmClock => "kvm-clock",
            Self::HyperVPage => "hyperv-page",
            Self::HyperVCounter => "hyperv-counter",
            Self::AcpiPm => "acpi_pm",
            Self::Hpet => "hpet",
            Self::Pit => "pit",
            Self::Rtc => "rtc",
        }
    }

    /// Its number in a request.
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The source of that number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.number() == number)
    }
}
