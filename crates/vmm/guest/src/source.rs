//! The clocks a guest can read.

numbered! {
    /// One of them, the cheapest first.
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
        /// The CMOS real-time clock, at the moment its second changes.
        Rtc,
    }
}

impl Source {
    /// Its usual name; Linux's clocksource where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::KvmClock => "kvm-clock",
            Self::HyperVPage => "hyperv-page",
            Self::HyperVCounter => "hyperv-counter",
            Self::AcpiPm => "acpi_pm",
            Self::Hpet => "hpet",
            Self::Rtc => "rtc",
        }
    }
}
