//! The guest's TSC, before each vCPU's offset.

use pvclock::kvm_clock::TimeUpdate;
use pvclock::{Hertz, Nanos};

use crate::Reading;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Guest cycles for each cycle of the host's, with 48 bits of fraction: all of
/// them where Intel's hardware scales, the upper 32 where AMD's does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscRatio(u64);

impl TscRatio {
    /// Bits of the fraction, of which hardware may have fewer.
    pub const FRACTION_BITS: u32 = 48;
    /// Not scaled.
    pub const ONE: Self = Self(1 << Self::FRACTION_BITS);

    /// What makes a guest's TSC run at `guest` on a host whose own runs at
    /// `host`, by hardware whose ratio has so many bits of fraction: 48 on
    /// Intel's, 32 on AMD's (APM vol. 2, 15.30.5, "TSC Ratio MSR"), which
    /// takes `raw() >> 16`. Cut to those: slow by less than 2^−bits · host
    /// cycles a second. With bits that the hardware has not, the TSC would be
    /// computed otherwise than it runs.
    ///
    /// # Errors
    /// [`RatioError`], at 2^16 and above, and where it is cut to 0.
    ///
    /// ```
    /// use host::TscRatio;
    /// use pvclock::Hertz;
    /// let (guest, host) = (Hertz(2_600_000_000), Hertz(3_900_000_000));
    /// let intel = TscRatio::new(guest, host, 48)?;
    /// assert_eq!(intel.apply(3_900_000_000), 2_599_999_999); // never ahead
    /// let amd = TscRatio::new(guest, host, 32)?;
    /// assert_eq!(amd.raw() >> 16, (2 << 32) / 3);
    /// # Ok::<(), host::RatioError>(())
    /// ```
    pub const fn new(guest: Hertz, host: Hertz, fraction_bits: u32) -> Result<Self, RatioError> {
        if host.0 == 0 {
            return Err(RatioError { guest, host });
        }
        let exact = ((guest.0 as u128) << Self::FRACTION_BITS) / host.0 as u128;
        let lacking = Self::FRACTION_BITS.saturating_sub(fraction_bits);
        let raw = exact >> lacking << lacking;
        if raw == 0 || raw > u64::MAX as u128 {
            return Err(RatioError { guest, host });
        }
        Ok(Self(raw as u64))
    }

    /// As hardware with all 48 bits takes it.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A host's TSC value, scaled; wraps as the TSC does.
    #[inline]
    pub const fn apply(self, host_tsc: u64) -> u64 {
        ((host_tsc as u128 * self.0 as u128) >> Self::FRACTION_BITS) as u64
    }
}

/// Two frequencies that no hardware brings together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a guest's TSC of {guest} on a host's of {host}: the ratio does not fit 16.48 bits")]
pub struct RatioError {
    /// What the guest's is to be.
    pub guest: Hertz,
    /// What the host's is.
    pub host: Hertz,
}

/// Where a guest's TSC comes from. What it gives is the *base*; a vCPU's TSC
/// is the base plus its offset, wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The host's, scaled to run at `rate`.
    Real { ratio: TscRatio, rate: Hertz },
    /// The host's boot clock at some rate: `at` when that was `since`.
    Emulated { since: Nanos, at: u64, rate: Hertz },
}

impl Source {
    /// The host's own.
    pub(crate) const fn unscaled(host: Hertz) -> Self {
        Self::Real { ratio: TscRatio::ONE, rate: host }
    }

    /// What it truly runs at.
    pub(crate) const fn rate(self) -> Hertz {
        match self {
            Self::Real { rate, .. } | Self::Emulated { rate, .. } => rate,
        }
    }

    #[inline]
    pub(crate) const fn base(self, now: Reading) -> u64 {
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

/// The time at `tsc` on the line that an update describes: as a guest reads
/// it, but that a TSC before the line's beginning counts back from there.
#[inline]
pub(crate) fn along(line: &TimeUpdate, tsc: u64) -> Nanos {
    let delta = tsc.wrapping_sub(line.tsc_timestamp);
    let nanos = |cycles| line.scale.nanos(cycles).map_or(u64::MAX, |nanos| nanos.0);
    Nanos(if delta.cast_signed() >= 0 {
        line.system_time.0.saturating_add(nanos(delta))
    } else {
        line.system_time.0.saturating_sub(nanos(delta.wrapping_neg()))
    })
}
