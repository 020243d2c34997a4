//! A saved clock as a VMM embeds it in its own snapshot, by serde: plain numbers with their units
//! in their names, and a version.
//!
//! A program knows its own version and all before it. It refuses a later one, and
//! fields that it does not know: a clock that is understood by half is restored wrong.

use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::HostClocks;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{HostCapabilities, HostTsc, KvmClockState, SavedClock, SavedTsc};

const VERSION: u32 = 1;
/// Far above what KVM has, 4096 vCPUs.
const VCPUS_MAX: usize = 65_536;

/// Why what was read is not a saved clock; its text becomes the deserializer's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KvmDecodeError {
    #[error("the saved clock has version {found}; this program knows versions 1 to {VERSION}")]
    Version { found: u32 },
    #[error("the saved clock has a TSC of {khz} kHz")]
    Rate { khz: u64 },
    #[error("the saved clock has {found} vCPUs, where {VCPUS_MAX} are possible")]
    Vcpus { found: usize },
}

/// What is written and read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    // First, so that a later version is named before one of its fields is unknown.
    #[serde(deserialize_with = "known_version")]
    version: u32,
    clock_ns: u64,
    host: HostDocument,
    vcpus: Vec<VcpuDocument>,
}

fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(from)?;
    let is_known = (1..=VERSION).contains(&found);
    is_known.then_some(found).ok_or_else(|| D::Error::custom(KvmDecodeError::Version { found }))
}

/// The saving host, when the clock was saved.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostDocument {
    tsc: u64,
    tsc_khz: u64,
    tsc_fraction_bits: Option<u32>,
    boot_ns: u64,
    real_ns: u64,
    tai_offset_s: Option<i32>,
    real_error_ns: Option<u64>,
    width_ns: u64,
    boot_width_ns: u64,
    boot_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VcpuDocument {
    tsc: u64,
    tsc_khz: u64,
    tsc_adjust: Option<u64>,
    tsc_deadline: Option<u64>,
    msr_system_time: Option<u64>,
    msr_steal_time: Option<u64>,
}

impl From<KvmClockState> for Document {
    fn from(state: KvmClockState) -> Self {
        let KvmClockState { clock: SavedClock { clock, taken, width, boot_width }, host, tscs } =
            state;
        let vcpus = tscs.iter().map(|tsc| VcpuDocument {
            tsc: tsc.tsc,
            tsc_khz: tsc.frequency.0 / 1_000,
            tsc_adjust: tsc.adjust,
            tsc_deadline: tsc.deadline,
            msr_system_time: tsc.system_time,
            msr_steal_time: tsc.steal_time,
        });
        Self {
            version: VERSION,
            clock_ns: clock.0,
            host: HostDocument {
                tsc: taken.tsc.0,
                tsc_khz: host.tsc.frequency.0 / 1_000,
                tsc_fraction_bits: host.tsc.fraction_bits,
                boot_ns: taken.boot.0,
                real_ns: taken.real.0.0,
                tai_offset_s: taken.tai_offset_s,
                real_error_ns: host.real_error.map(|error| error.0),
                width_ns: width.0,
                boot_width_ns: boot_width.0,
                boot_id: host.boot_id,
            },
            vcpus: vcpus.collect(),
        }
    }
}

impl TryFrom<Document> for KvmClockState {
    type Error = KvmDecodeError;

    fn try_from(document: Document) -> Result<Self, KvmDecodeError> {
        let Document { clock_ns, host, vcpus, .. } = document;
        if vcpus.len() > VCPUS_MAX {
            return Err(KvmDecodeError::Vcpus { found: vcpus.len() });
        }
        let real = UnixTime(Nanos(host.real_ns));
        let taken = HostClocks::new(Ticks(host.tsc), Nanos(host.boot_ns), real);
        let frequency = hertz(host.tsc_khz)?;
        let tsc = match host.tsc_fraction_bits {
            Some(bits) => HostTsc::scaled(frequency, bits),
            None => HostTsc::unscaled(frequency),
        };
        let tscs = vcpus.into_iter().map(|vcpu| {
            let frequency = hertz(vcpu.tsc_khz)?;
            Ok(SavedTsc {
                frequency,
                tsc: vcpu.tsc,
                adjust: vcpu.tsc_adjust,
                deadline: vcpu.tsc_deadline,
                system_time: vcpu.msr_system_time,
                steal_time: vcpu.msr_steal_time,
            })
        });
        Ok(Self {
            clock: SavedClock {
                clock: Nanos(clock_ns),
                taken: taken.changed(|new| new.tai_offset_s = host.tai_offset_s),
                width: Nanos(host.width_ns),
                boot_width: Nanos(host.boot_width_ns),
            },
            tscs: tscs.collect::<Result<_, KvmDecodeError>>()?,
            host: HostCapabilities {
                tsc,
                real_error: host.real_error_ns.map(Nanos),
                boot_id: host.boot_id,
            },
        })
    }
}

/// What KVM_GET_TSC_KHZ can return.
fn hertz(khz: u64) -> Result<Hertz, KvmDecodeError> {
    let is_possible = (1..=u64::from(u32::MAX)).contains(&khz);
    if is_possible { Ok(Hertz(khz * 1_000)) } else { Err(KvmDecodeError::Rate { khz }) }
}
