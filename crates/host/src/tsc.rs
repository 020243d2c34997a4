//! The guest's TSC, before each vCPU's offset.

use pvclock::kvm_clock::TimeUpdate;
use pvclock::{Hertz, Nanos};

use crate::{ClockSettings, HostClocks, TscPlan};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Guest cycles for each cycle of the host's TSC, with 48 bits of fraction.
/// Intel's hardware uses all of them, AMD's the upper 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscRatio(u64);

impl TscRatio {
    /// Bits of the fraction; hardware may have fewer.
    pub const FRACTION_BITS: u32 = 48;
    /// Not scaled.
    pub const ONE: Self = Self(1 << Self::FRACTION_BITS);

    /// The ratio for a guest's TSC at `guest` on a host whose own runs at
    /// `host`, with hardware whose ratio has this number of fraction bits: 48 on
    /// Intel's, 32 on AMD's (APM vol. 2, 15.30.5, "TSC Ratio MSR"), which
    /// takes `raw() >> 16`. Of both rates only whole kHz count, as for KVM
    /// (set_tsc_khz, arch/x86/kvm/x86.c), and it is cut to those bits, so the TSC is
    /// slow by less than 2^−bits · host cycles a second, and the computed TSC is the
    /// one that the hardware has. For example, 2.6 GHz on 3.9 GHz with 32 bits:
    /// 2/3 · 2^32 = 2,863,311,530 (.67 is cut).
    ///
    /// # Errors
    /// [`RatioError`], at 2^16 and above (2^8 with 32 bits), and where it is cut to 0.
    ///
    /// ```
    /// use pvclock_host::TscRatio;
    /// use pvclock::Hertz;
    /// let (guest, host) = (Hertz(2_600_000_000), Hertz(3_900_000_000));
    /// let intel = TscRatio::new(guest, host, 48)?;
    /// assert_eq!(intel.apply(3_900_000_000), 2_599_999_999); // never ahead
    /// let amd = TscRatio::new(guest, host, 32)?;
    /// assert_eq!(amd.raw() >> 16, 2_863_311_530);
    /// # Ok::<(), pvclock_host::RatioError>(())
    /// ```
    pub const fn new(guest: Hertz, host: Hertz, fraction_bits: u32) -> Result<Self, RatioError> {
        let (guest_khz, host_khz) = (guest.0 as u128 / 1_000, host.0 as u128 / 1_000);
        if host_khz == 0 {
            return Err(RatioError { guest, host });
        }
        let exact = (guest_khz << Self::FRACTION_BITS) / host_khz;
        let lacking = Self::FRACTION_BITS.saturating_sub(fraction_bits);
        let raw = exact >> lacking << lacking;
        // AMD's register has 8 bits before the point, Intel's 16.
        let whole_bits = if fraction_bits <= 32 { 8 } else { 16 };
        if raw == 0 || raw >> (Self::FRACTION_BITS + whole_bits) != 0 {
            return Err(RatioError { guest, host });
        }
        Ok(Self(raw as u64))
    }

    /// The value for hardware with all 48 bits.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A host's TSC value, scaled; it wraps as the TSC does.
    #[inline]
    pub const fn apply(self, host_tsc: u64) -> u64 {
        ((host_tsc as u128 * self.0 as u128) >> Self::FRACTION_BITS) as u64
    }
}

/// Two frequencies whose ratio no hardware can apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("TSC scaling from {host} to {guest}: the ratio does not fit the hardware's register")]
pub struct RatioError {
    /// The guest's TSC frequency.
    pub guest: Hertz,
    /// The host's TSC frequency.
    pub host: Hertz,
}

/// Where a guest's TSC comes from. Its value is the *base*; a vCPU's TSC is the
/// base plus its offset, wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The host's, scaled to run at `rate`.
    Real { ratio: TscRatio, rate: Hertz },
    /// Computed from the host's boot clock: `at` when that was `since`.
    Emulated { since: Nanos, at: u64, rate: Hertz },
}

impl Source {
    /// The host's own.
    pub(crate) const fn unscaled(host: Hertz) -> Self {
        Self::Real { ratio: TscRatio::ONE, rate: host }
    }

    /// Its true rate.
    pub(crate) const fn rate(self) -> Hertz {
        match self {
            Self::Real { rate, .. } | Self::Emulated { rate, .. } => rate,
        }
    }

    /// The same kind of source at another rate, as KVM_SET_TSC_KHZ makes it; where
    /// nothing scales, the physical TSC itself runs at the new rate.
    pub(crate) fn at_rate(
        self,
        rate: Hertz,
        settings: &ClockSettings,
        now: HostClocks,
    ) -> Result<Self, RatioError> {
        Ok(match self {
            Self::Emulated { .. } => Self::Emulated { since: now.boot, at: self.base(now), rate },
            Self::Real { .. } if settings.tsc_scaling.is_none() => {
                Self::Real { ratio: TscRatio::ONE, rate }
            }
            Self::Real { .. } => {
                let plan = TscPlan::new(rate, settings.host_tsc, settings.tsc_scaling)?;
                Self::Real { ratio: plan.ratio, rate: plan.rate }
            }
        })
    }

    #[inline]
    pub(crate) const fn base(self, now: HostClocks) -> u64 {
        match self {
            Self::Real { ratio, .. } => ratio.apply(now.tsc.0),
            Self::Emulated { since, at, rate } => {
                let elapsed = now.boot.0.saturating_sub(since.0);
                at.wrapping_add(cycles(Nanos(elapsed), rate) as u64)
            }
        }
    }
}

/// Cycles at `rate` in `time`, cut; below 2^98.
pub(crate) const fn cycles(time: Nanos, rate: Hertz) -> u128 {
    time.0 as u128 * rate.0 as u128 / NANOS_PER_SECOND
}

/// The time at `tsc` by a snapshot: as a guest reads it, except that a TSC
/// before the snapshot's counts back from there.
#[inline]
pub(crate) fn time_at(snapshot: &TimeUpdate, tsc: u64) -> Nanos {
    let delta = tsc.wrapping_sub(snapshot.tsc_timestamp);
    let nanos = |cycles| snapshot.scale.nanos(cycles).map_or(u64::MAX, |nanos| nanos.0);
    Nanos(if delta.cast_signed() >= 0 {
        snapshot.system_time.0.saturating_add(nanos(delta))
    } else {
        snapshot.system_time.0.saturating_sub(nanos(delta.wrapping_neg()))
    })
}
