//! What a VM's clock is made from.

use pvclock::hyperv::ReferenceScale;
use pvclock::{Hertz, Nanos, Scale, ScaleError};

use crate::{Calibration, Kind};

/// How the guest's TSC comes about.
///
/// ```
/// use host::{Event, GuestClock, Kind, PlainMemory, Reading, Settings, TscMode, VcpuId};
/// use units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| Reading { tsc: Ticks(3 * ns), boot: Nanos(ns), real: UnixTime(Nanos(ns)) };
/// let settings = Settings::new(Kind::None, Hertz(3_000_000_000)).told(Hertz(1_000_000_000));
/// for (tsc_mode, tsc) in [(TscMode::Real, 3_000), (TscMode::Emulated, 1_000)] {
///     let mut host = GuestClock::new(Settings { tsc_mode, ..settings }, at(0))?;
///     let vcpu = VcpuId(0);
///     host.handle(Event::VcpuCreated { vcpu, tsc_offset: 0 }, at(0), &PlainMemory::new(0));
///     assert_eq!(host.guest_tsc(vcpu, at(1_000)), Some(tsc));
/// }
/// # Ok::<(), host::SettingsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TscMode {
    /// The CPU's own, plus an offset for each vCPU (and scaled by hardware,
    /// where a restore asks for it): RDTSC does not leave the guest.
    Real,
    /// RDTSC is trapped, and the host answers from its boot clock at the told
    /// frequency: exact, and an exit each.
    Emulated,
}

/// Who says what the guest is told of its TSC's frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrequencyFrom {
    /// It is the host's own figure.
    GuestClock,
    /// The user, right or wrong.
    User,
    /// A measurement, so far off at the most.
    Calibration {
        /// Either way.
        error: Hertz,
    },
}

/// What a VM's clock is made from.
///
/// ```
/// use host::{Kind, Settings};
/// use pvclock::Hertz;
///
/// // A guest that is told 2.299 % too much, as VirtualBox 5.0 once did.
/// let settings = Settings::new(Kind::Kvm, Hertz(3_400_109_000)).told(Hertz(3_478_274_491));
/// assert_eq!(settings.told_error_ppm().round(), 22_989.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Which provider.
    pub kind: Kind,
    /// The rate the host's TSC truly runs at.
    pub host_tsc: Hertz,
    /// The rate the guest is told, in pages, CPUID and MSRs.
    pub advertised_tsc: Hertz,
    /// Who says so.
    pub frequency_from: FrequencyFrom,
    /// The rate of the guest's APIC timer.
    pub apic: Hertz,
    /// Where the guest's TSC comes from.
    pub tsc_mode: TscMode,
    /// The hardware can run the guest's TSC at another rate than the host's, by
    /// a ratio of so many bits of fraction (Intel 48, AMD 32), and the VMM sets
    /// it as a restore says.
    pub tsc_scaling: Option<u32>,
    /// The VMM can trap RDTSC when it is asked to: what keeps a Hyper-V guest
    /// right after a migration until it has taken note.
    pub tsc_trapping: bool,
    /// The host's own clock is TSC-based: first condition of a master clock.
    pub host_clocksource_is_tsc: bool,
    /// All pages are written this often, as kernels before 6.18 do (300 s).
    pub sync_period: Option<Nanos>,
    /// An update never sets the time back: where the host's clock is behind
    /// what the guest has been told, time goes on from there. KVM steps back.
    /// Setting the clock ([`Event::ClockSet`](crate::Event::ClockSet)) may.
    pub never_back: bool,
    /// How far this host's real time may be off, when its NTP daemon says:
    /// part of the bound on the step that a migration makes.
    pub real_time_error: Option<Nanos>,
}

impl Settings {
    /// The usual: a real TSC, the truth told, a TSC-based host.
    pub const fn new(kind: Kind, host_tsc: Hertz) -> Self {
        Self {
            kind,
            host_tsc,
            advertised_tsc: host_tsc,
            frequency_from: FrequencyFrom::GuestClock,
            // What KVM's APIC has (APIC_BUS_CYCLE_NS, arch/x86/kvm/lapic.h).
            apic: Hertz(1_000_000_000),
            tsc_mode: TscMode::Real,
            tsc_scaling: None,
            tsc_trapping: false,
            host_clocksource_is_tsc: true,
            sync_period: None,
            never_back: true,
            real_time_error: None,
        }
    }

    /// The same, with the guest told what a user says.
    #[must_use]
    pub const fn told(self, frequency: Hertz) -> Self {
        Self { advertised_tsc: frequency, frequency_from: FrequencyFrom::User, ..self }
    }

    /// The usual on a host whose TSC was measured.
    pub const fn calibrated(kind: Kind, calibration: &Calibration) -> Self {
        let frequency_from = FrequencyFrom::Calibration { error: calibration.error };
        Self { frequency_from, ..Self::new(kind, calibration.frequency) }
    }

    /// How much too high the told frequency is, in parts per million.
    pub fn told_error_ppm(&self) -> f64 {
        (self.advertised_tsc.0 as f64 / self.host_tsc.0 as f64 - 1.0) * 1e6
    }

    /// The page's scale at the told frequency.
    pub(crate) fn scale(&self) -> Result<Scale, SettingsError> {
        let scale = Scale::from_hertz(self.advertised_tsc).map_err(SettingsError::Told)?;
        if self.kind == Kind::HyperV {
            ReferenceScale::from_hertz(self.advertised_tsc).map_err(SettingsError::Told)?;
        }
        Scale::from_hertz(self.host_tsc).map_err(SettingsError::GuestClock)?;
        if self.apic.0 == 0 || self.apic.0 / 1_000 > u64::from(u32::MAX) {
            return Err(SettingsError::Apic { frequency: self.apic });
        }
        if let Some(period) = self.sync_period
            && period.0 == 0
        {
            return Err(SettingsError::SyncPeriod);
        }
        Ok(scale)
    }
}

/// Settings that make no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No page can express what the guest is to be told.
    #[error("the frequency told to the guest: {0}")]
    Told(ScaleError),
    /// No TSC runs so.
    #[error("the host's TSC frequency: {0}")]
    GuestClock(ScaleError),
    /// CPUID has 32 bits of kHz for it.
    #[error("an APIC timer of {frequency} where 1 Hz to 2^32 kHz are possible")]
    Apic {
        /// What was asked for.
        frequency: Hertz,
    },
    /// It would never end.
    #[error("a synchronisation every 0 ns")]
    SyncPeriod,
}
