//! The settings of a VM's clock.

use pvclock::hyperv::ReferenceScale;
use pvclock::{Hertz, Nanos, Scale, ScaleError};

use crate::ClockProvider;

/// Where the guest's TSC comes from.
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, ClockProvider, PlainMemory, HostClocks, ClockSettings, TscMode, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| HostClocks::new(Ticks(3 * ns), Nanos(ns), UnixTime(Nanos(ns)));
/// let settings = ClockSettings::new(ClockProvider::None, Hertz(3_000_000_000)).advertise(Hertz(1_000_000_000));
/// for (tsc_mode, tsc) in [(TscMode::Real, 3_000), (TscMode::Emulated, 1_000)] {
///     let mut host = GuestClock::new(settings.changed(|new| new.tsc_mode = tsc_mode), at(0))?;
///     let vcpu = VcpuId(0);
///     host.handle(HostEvent::VcpuCreated { vcpu, tsc_offset: 0 }, at(0), &PlainMemory::new(0));
///     assert_eq!(host.guest_tsc(vcpu, at(1_000)), Some(tsc));
/// }
/// # Ok::<(), pvclock_host::SettingsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TscMode {
    /// The CPU's own, plus an offset for each vCPU (and scaled by hardware,
    /// where a restore needs it): RDTSC does not leave the guest.
    Real,
    /// RDTSC is trapped, and the host computes the TSC from its boot clock at
    /// the advertised frequency: exact, at the price of an exit each.
    Emulated,
}

/// Where the advertised TSC frequency comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrequencyFrom {
    /// It is the host's own TSC frequency.
    Host,
    /// The user set it, right or wrong.
    User,
}

/// The settings of a VM's clock.
///
/// ```
/// use pvclock_host::{ClockProvider, ClockSettings};
/// use pvclock::Hertz;
///
/// // An advertised frequency that is 2.299 % too high, as VirtualBox 5.0 once had it.
/// let settings = ClockSettings::new(ClockProvider::Kvm, Hertz(3_400_109_000)).advertise(Hertz(3_478_274_491));
/// assert_eq!(settings.advertised_error_ppm().round(), 22_989.0);
/// let synced = settings.changed(|new| new.never_back = false);
/// assert!(!synced.never_back);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSettings {
    /// The provider.
    pub kind: ClockProvider,
    /// The true rate of the host's TSC.
    pub host_tsc: Hertz,
    /// The rate that pages, CPUID and MSRs give the guest.
    pub advertised_tsc: Hertz,
    /// Where that rate comes from.
    pub frequency_from: FrequencyFrom,
    /// The rate of the guest's APIC timer.
    pub apic: Hertz,
    /// Where the guest's TSC comes from.
    pub tsc_mode: TscMode,
    /// The hardware can run the guest's TSC at another rate than the host's, by
    /// a ratio with this number of fraction bits (Intel 48, AMD 32), and the VMM sets
    /// the ratio that a restore computes.
    pub tsc_scaling: Option<u32>,
    /// The VMM can trap RDTSC on request: that keeps a Hyper-V guest right
    /// after a migration until it has acknowledged the new rate.
    pub tsc_trapping: bool,
    /// The guest's TSC is invariant: one rate, whatever its CPU does (CPUID 0x80000007, EDX
    /// bit 8, which the VMM lets the guest see). Hyper-V's guests are offered the control
    /// that has the host promise it, without which Linux gives the TSC up there.
    pub tsc_invariant: bool,
    /// The host's own clock is TSC-based: first condition of a master clock.
    pub host_clocksource_is_tsc: bool,
    /// All pages are written this often, as kernels before 6.19 do (300 s).
    pub sync_period: Option<Nanos>,
    /// An update never sets the time back: where the host's clock is behind
    /// what the guest can have read, time continues from there. KVM steps back.
    /// Setting the clock ([`HostEvent::ClockSet`](crate::HostEvent::ClockSet)) may.
    pub never_back: bool,
    /// The error bound of this host's real time, if its NTP daemon gives one:
    /// part of the bound on the step that a migration makes.
    pub real_time_error: Option<Nanos>,
}

impl ClockSettings {
    /// The usual: a real TSC at its true frequency, a TSC-based host.
    pub const fn new(kind: ClockProvider, host_tsc: Hertz) -> Self {
        Self {
            kind,
            host_tsc,
            advertised_tsc: host_tsc,
            frequency_from: FrequencyFrom::Host,
            // What KVM's APIC has (APIC_BUS_CYCLE_NS, arch/x86/kvm/lapic.h).
            apic: Hertz(1_000_000_000),
            tsc_mode: TscMode::Real,
            tsc_scaling: None,
            tsc_trapping: false,
            tsc_invariant: false,
            host_clocksource_is_tsc: true,
            sync_period: None,
            never_back: true,
            real_time_error: None,
        }
    }

    /// The same, advertising a frequency of the user's choice.
    #[must_use]
    pub const fn advertise(self, frequency: Hertz) -> Self {
        Self { advertised_tsc: frequency, frequency_from: FrequencyFrom::User, ..self }
    }

    /// The same with any fields changed.
    #[must_use]
    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// By how much the advertised frequency is too high, in parts per million.
    pub fn advertised_error_ppm(&self) -> f64 {
        (self.advertised_tsc.0 as f64 / self.host_tsc.0 as f64 - 1.0) * 1e6
    }

    /// The page's scale at the advertised frequency.
    pub(crate) fn scale(&self) -> Result<Scale, SettingsError> {
        let advertised = self.advertised_tsc;
        let scale = Scale::from_hertz(advertised).map_err(SettingsError::AdvertisedTsc)?;
        if self.kind == ClockProvider::HyperV {
            ReferenceScale::from_hertz(advertised).map_err(SettingsError::AdvertisedTsc)?;
        }
        Scale::from_hertz(self.host_tsc).map_err(SettingsError::HostTsc)?;
        if self.apic.0 == 0 || self.apic.0 / 1_000 > u64::from(u32::MAX) {
            return Err(SettingsError::Apic { frequency: self.apic });
        }
        if self.sync_period == Some(Nanos(0)) {
            return Err(SettingsError::SyncPeriod);
        }
        Ok(scale)
    }
}

/// Why settings are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No page can express the advertised frequency.
    #[error("advertised TSC frequency: {0}")]
    AdvertisedTsc(ScaleError),
    /// No TSC runs at such a rate.
    #[error("the host's TSC frequency: {0}")]
    HostTsc(ScaleError),
    /// CPUID has 32 bits of kHz for it.
    #[error("APIC timer frequency {frequency} is outside 1 Hz to 2^32 kHz")]
    Apic {
        /// As requested.
        frequency: Hertz,
    },
    /// A period of 0 ns would never end.
    #[error("the synchronisation period is 0 ns")]
    SyncPeriod,
}
