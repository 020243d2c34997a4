//! The host's clocks, read together.

use pvclock::units::UnixTime;
use pvclock::{Nanos, Ticks};
use serde::{Deserialize, Serialize};

use crate::saved::{NanosNumber, TicksNumber, UnixTimeNumber};

/// The host's clocks at one moment. Two clocks that are read one after the
/// other differ by the time between the reads; the caller keeps that
/// short, or states how long it was.
///
/// ```
/// use pvclock_host::HostClocks;
/// use pvclock::{Nanos, Ticks};
/// use pvclock::units::UnixTime;
///
/// let now = HostClocks::new(Ticks(9), Nanos(4), UnixTime(Nanos(1_700_000_000_000_000_000)));
/// assert_eq!(now.tai(), None);
/// let now = now.changed(|new| new.tai_offset_s = Some(37));
/// assert_eq!(now.tai(), Some(Nanos(1_700_000_037_000_000_000)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HostClocks {
    /// The host's TSC.
    #[serde(with = "TicksNumber")]
    pub tsc: Ticks,
    /// Time since the host booted, including its sleep. The VM's clock follows
    /// whichever clock this is: KVM takes one that no NTP daemon steers,
    /// CLOCK_MONOTONIC_RAW plus the time slept (`get_kvmclock_base_ns`,
    /// arch/x86/kvm/x86.c). With CLOCK_BOOTTIME, each new snapshot steps by
    /// what was steered since the last.
    #[serde(rename = "boot_ns", with = "NanosNumber")]
    pub boot: Nanos,
    /// Time of day.
    #[serde(rename = "real_ns", with = "UnixTimeNumber")]
    pub real: UnixTime,
    /// TAI less time of day, s: 37 since 2017. `None` where nothing has set it:
    /// Linux starts with 0 until an NTP daemon does.
    pub tai_offset_s: Option<i32>,
}

impl HostClocks {
    /// A reading without the offset of TAI.
    pub const fn new(tsc: Ticks, boot: Nanos, real: UnixTime) -> Self {
        Self { tsc, boot, real, tai_offset_s: None }
    }

    /// The same with any fields changed.
    #[must_use]
    pub fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// TAI, in ns since 1970 by TAI's own count; it runs through leap seconds.
    pub fn tai(&self) -> Option<Nanos> {
        let offset_ns = i64::from(self.tai_offset_s?) * 1_000_000_000;
        self.real.0.0.checked_add_signed(offset_ns).map(Nanos)
    }
}
