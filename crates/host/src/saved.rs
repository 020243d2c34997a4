//! A saved clock as a VMM embeds it in its own snapshot, by serde.
//!
//! It comes from a file and is not trusted: registers pass the checks that a
//! guest's own writes pass, and addresses are looked up in the guest's memory
//! again when they are used. A program refuses other versions, and fields that
//! it does not know: a clock that is understood by half is restored wrong.

use alloc::vec::Vec;

use pvclock::{Hertz, Nanos, Scale, ScaleError, Ticks, UnixTime};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::hyperv::HyperV;
use crate::msr::{
    HV_REENLIGHTENMENT_CONTROL, HV_TSC_EMULATION_CONTROL, HV_TSC_INVARIANT_CONTROL, KVM_STEAL_TIME,
    KVM_SYSTEM_TIME, PageMsr, STEAL_ALIGNMENT, TIME_ALIGNMENT,
};
use crate::{ClockProvider, HostClocks, MsrError, VcpuId};

/// Versions 1 to 3 were bytes of this crate's own.
pub(crate) const VERSION: u32 = 4;

/// A saved clock. [`GuestClock::save`](crate::GuestClock::save) creates it,
/// [`GuestClock::restore`](crate::GuestClock::restore) takes it, and a VMM serializes it
/// in between.
///
/// ```
/// use pvclock_host::{HostEvent, GuestClock, ClockProvider, PlainMemory, HostClocks, SavedGuestClock, ClockSettings, VcpuId};
/// use pvclock::units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| HostClocks::new(Ticks(2 * ns), Nanos(ns), UnixTime(Nanos(ns)));
/// let mut host = GuestClock::new(ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000)), at(0))?;
/// let created = HostEvent::VcpuCreated { vcpu: VcpuId(0), tsc_offset: 0 };
/// host.handle(created, at(0), &PlainMemory::new(0));
/// let saved = host.save(at(700));
/// assert_eq!(saved.clock(), Nanos(700));
/// let text = serde_json::to_string(&saved)?;
/// assert_eq!(serde_json::from_str::<SavedGuestClock>(&text)?, saved);
/// let later = serde_json::from_str::<SavedGuestClock>(r#"{"version": 5}"#).unwrap_err().to_string();
/// assert!(later.starts_with("the saved clock has version 5; this program knows version 4"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedContents", into = "SavedContents")]
pub struct SavedGuestClock(pub(crate) SavedContents);

/// What is written and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedContents {
    // First, so that another version is named before one of its fields is unknown.
    #[serde(deserialize_with = "known_version")]
    pub(crate) version: u32,
    #[serde(rename = "provider")]
    pub(crate) kind: ClockProvider,
    #[serde(rename = "advertised_tsc_hz", with = "HertzNumber")]
    pub(crate) advertised_tsc: Hertz,
    /// The true rate of the first vCPU's TSC.
    #[serde(rename = "tsc_hz", with = "HertzNumber")]
    pub(crate) tsc_rate: Hertz,
    /// The host's clocks at the save.
    #[serde(rename = "host")]
    pub(crate) taken: HostClocks,
    pub(crate) real_error_ns: Option<u64>,
    #[serde(rename = "clock_ns", with = "NanosNumber")]
    pub(crate) clock: Nanos,
    /// The largest difference between two vCPUs' clocks.
    #[serde(rename = "spread_ns", with = "NanosNumber")]
    pub(crate) spread: Nanos,
    #[serde(rename = "msr_wall_clock")]
    pub(crate) wall_clock: u64,
    pub(crate) boot_vcpu_uses_old_msr: bool,
    pub(crate) hyperv: HyperV,
    pub(crate) vcpus: Vec<SavedVcpu>,
}

/// A vCPU of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedVcpu {
    #[serde(rename = "index")]
    pub(crate) id: VcpuId,
    pub(crate) tsc: u64,
    #[serde(rename = "tsc_hz", with = "HertzNumber")]
    pub(crate) rate: Hertz,
    #[serde(rename = "msr_system_time")]
    pub(crate) system_time: PageMsr,
    #[serde(rename = "msr_steal_time")]
    pub(crate) steal_time: PageMsr,
}

/// Why what was read is not a saved clock; its text becomes the deserializer's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the saved clock has version {found}; this program knows version {VERSION}")]
    Version { found: u32 },
    #[error("TSC frequency: {0}")]
    Rate(#[from] ScaleError),
    #[error("saved register: {0}")]
    Register(#[from] MsrError),
    #[error("vCPU {} follows vCPU {}", .after.0, .before.0)]
    Order { before: VcpuId, after: VcpuId },
}

fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(from)?;
    let known = Some(found).filter(|found| *found == VERSION);
    known.ok_or_else(|| D::Error::custom(DecodeError::Version { found }))
}

impl From<SavedGuestClock> for SavedContents {
    fn from(saved: SavedGuestClock) -> Self {
        saved.0
    }
}

impl TryFrom<SavedContents> for SavedGuestClock {
    type Error = DecodeError;

    fn try_from(contents: SavedContents) -> Result<Self, DecodeError> {
        contents.check().map(|()| Self(contents))
    }
}

impl SavedGuestClock {
    /// The provider that saved it.
    pub const fn kind(&self) -> ClockProvider {
        self.0.kind
    }

    /// The host's clocks when it was saved.
    pub const fn host_clocks(&self) -> HostClocks {
        self.0.taken
    }

    /// The guest's clock: the latest of its vCPUs.
    pub const fn clock(&self) -> Nanos {
        self.0.clock
    }

    /// The advertised TSC frequency.
    pub const fn advertised_tsc(&self) -> Hertz {
        self.0.advertised_tsc
    }

    /// The same as a host with a TSC of another rate would have saved it, for a test of
    /// a move to a host of this one's.
    #[must_use]
    pub fn with_rate(mut self, rate: Hertz) -> Self {
        (self.0.advertised_tsc, self.0.tsc_rate) = (rate, rate);
        self.0.vcpus.iter_mut().for_each(|vcpu| vcpu.rate = rate);
        self
    }

    /// Its vCPUs, and their TSCs.
    pub fn vcpus(&self) -> impl Iterator<Item = (VcpuId, u64)> {
        self.0.vcpus.iter().map(|vcpu| (vcpu.id, vcpu.tsc))
    }
}

impl SavedContents {
    /// Whether a host could have saved this.
    fn check(&self) -> Result<(), DecodeError> {
        let rates = [self.advertised_tsc, self.tsc_rate].into_iter();
        for rate in rates.chain(self.hyperv.unacknowledged) {
            Scale::from_hertz(rate)?;
        }
        for (msr, value) in [
            (HV_REENLIGHTENMENT_CONTROL, self.hyperv.reenlightenment),
            (HV_TSC_EMULATION_CONTROL, self.hyperv.emulation_control),
            (HV_TSC_INVARIANT_CONTROL, self.hyperv.invariant_control),
        ] {
            HyperV::check(msr, value)?;
        }
        for vcpu in &self.vcpus {
            Scale::from_hertz(vcpu.rate)?;
            PageMsr::checked(KVM_SYSTEM_TIME, vcpu.system_time.0, TIME_ALIGNMENT)?;
            PageMsr::checked(KVM_STEAL_TIME, vcpu.steal_time.0, STEAL_ALIGNMENT)?;
        }
        let mut pairs = self.vcpus.iter().zip(self.vcpus.iter().skip(1));
        match pairs.find(|(before, after)| before.id >= after.id) {
            Some((before, after)) => Err(DecodeError::Order { before: before.id, after: after.id }),
            None => Ok(()),
        }
    }
}

// Quantities as their numbers.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Hertz")]
pub(crate) struct HertzNumber(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Nanos")]
pub(crate) struct NanosNumber(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Ticks")]
pub(crate) struct TicksNumber(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "UnixTime")]
pub(crate) struct UnixTimeNumber(#[serde(with = "NanosNumber")] Nanos);

pub(crate) mod optional_hertz {
    use pvclock::Hertz;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(rate: &Option<Hertz>, to: S) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.0).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Hertz>, D::Error> {
        Ok(Option::deserialize(from)?.map(Hertz))
    }
}
