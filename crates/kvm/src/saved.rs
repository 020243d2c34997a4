//! A saved clock as JSON: plain numbers with their units in their names, and a version.
//!
//! A program knows its own version and all before it. It refuses a later one, and
//! fields that it does not know: a clock that is understood by half is restored wrong.

use host::HostClocks;
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};
use serde::{Deserialize, Serialize};

use crate::{HostCapabilities, HostTsc, KvmClockState, SavedClock, SavedTsc};

const VERSION: u32 = 1;
/// Far above what KVM has, 4096 vCPUs.
const VCPUS_MAX: usize = 65_536;

/// Why a text is not a saved clock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvmDecodeError {
    /// Not JSON, cut short, or without what a saved clock has.
    #[error("the saved clock cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A later program saved it.
    #[error("the saved clock has version {found}; this program knows versions 1 to {VERSION}")]
    Version {
        /// What is there.
        found: u32,
    },
    /// A rate that no TSC has.
    #[error("the saved clock has a TSC of {khz} kHz")]
    Rate {
        /// What is there.
        khz: u64,
    },
    /// More vCPUs than any VM has.
    #[error("the saved clock has {found} vCPUs, where {VCPUS_MAX} are possible")]
    Vcpus {
        /// What is there.
        found: usize,
    },
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    clock_ns: u64,
    host: HostDocument,
    vcpus: Vec<VcpuDocument>,
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

impl KvmClockState {
    /// As JSON, for a file.
    ///
    /// # Errors
    /// None that is known: numbers and texts can be written.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let Self { clock: SavedClock { clock, taken, width, boot_width }, host, tscs } = self;
        let vcpus = tscs.iter().map(|tsc| VcpuDocument {
            tsc: tsc.tsc,
            tsc_khz: tsc.frequency.0 / 1_000,
            tsc_adjust: tsc.adjust,
            tsc_deadline: tsc.deadline,
            msr_system_time: tsc.system_time,
            msr_steal_time: tsc.steal_time,
        });
        let document = Document {
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
                boot_id: host.boot_id.clone(),
            },
            vcpus: vcpus.collect(),
        };
        serde_json::to_string_pretty(&document)
    }

    /// From a text of any origin.
    ///
    /// # Errors
    /// [`KvmDecodeError`].
    ///
    /// ```
    /// let early = kvm::KvmClockState::from_json(r#"{"version": 1, "clock_ns": 5"#).unwrap_err();
    /// assert!(early.to_string().contains("EOF"), "{early}");
    /// let later = kvm::KvmClockState::from_json(r#"{"version": 2}"#).unwrap_err();
    /// assert_eq!(
    ///     later.to_string(),
    ///     "the saved clock has version 2; this program knows versions 1 to 1"
    /// );
    /// ```
    pub fn from_json(text: &str) -> Result<Self, KvmDecodeError> {
        let Versioned { version: found } = serde_json::from_str(text)?;
        if !(1..=VERSION).contains(&found) {
            return Err(KvmDecodeError::Version { found });
        }
        let Document { clock_ns, host, vcpus, .. } = serde_json::from_str(text)?;
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
