//! A saved clock: what it contains, and its bytes.
//!
//! The bytes, little-endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `PVCLOCK` and a zero |
//! | 4 | version, 3 |
//! | 4 | provider, its index in [`ClockProvider::ALL`] |
//! | 8 × 7 | advertised TSC frequency, true rate of the TSC, real time, its error (all ones: unknown), clock, spread, wall clock MSR |
//! | 8 × 3 | boot clock, host's TSC, TAI offset in s (2^63: unknown) |
//! | 4, 4 | whether the boot vCPU uses the old MSRs; Hyper-V sequence |
//! | 8 × 5 | Hyper-V: OS id, page, re-enlightenment, emulation control, rate not yet acknowledged (0: none) |
//! | 8 | Hyper-V: invariant-TSC control |
//! | 4 | number of vCPUs |
//! | 36 each | index (4), TSC, its true rate, system time MSR, steal time MSR |
//!
//! They come from a file and are not trusted: registers pass the checks that a
//! guest's own writes pass, and addresses are looked up in the guest's memory
//! again when they are used.

use alloc::vec::Vec;

use pvclock::{Hertz, Nanos, Scale, ScaleError, Ticks};

use crate::hyperv::HyperV;
use crate::msr::{
    HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC, HV_TSC_EMULATION_CONTROL,
    HV_TSC_INVARIANT_CONTROL, KVM_STEAL_TIME, KVM_SYSTEM_TIME, PageMsr, STEAL_ALIGNMENT,
    TIME_ALIGNMENT,
};
use crate::{ClockProvider, HostClocks, MsrError, VcpuId};
use pvclock::units::UnixTime;

const MAGIC: u64 = u64::from_le_bytes(*b"PVCLOCK\0");
const VERSION: u32 = 3;
const NO_TAI: u64 = 1 << 63;

/// A saved clock. [`GuestClock::save`](crate::GuestClock::save) creates it,
/// [`GuestClock::restore`](crate::GuestClock::restore) takes it.
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
/// assert_eq!(SavedGuestClock::from_bytes(&saved.to_bytes()), Ok(saved));
/// # Ok::<(), pvclock_host::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedGuestClock {
    pub(crate) kind: ClockProvider,
    pub(crate) advertised_tsc: Hertz,
    /// The true rate of the first vCPU's TSC.
    pub(crate) tsc_rate: Hertz,
    /// The host's clocks at the save.
    pub(crate) taken: HostClocks,
    pub(crate) real_time_error: Option<Nanos>,
    pub(crate) clock: Nanos,
    /// The largest difference between two vCPUs' clocks.
    pub(crate) spread: Nanos,
    pub(crate) wall_clock: u64,
    pub(crate) boot_vcpu_uses_old_msr: bool,
    pub(crate) hyperv: HyperV,
    pub(crate) vcpus: Vec<SavedVcpu>,
}

/// A vCPU of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SavedVcpu {
    pub(crate) id: VcpuId,
    pub(crate) tsc: u64,
    pub(crate) rate: Hertz,
    pub(crate) system_time: PageMsr,
    pub(crate) steal_time: PageMsr,
}

/// Why bytes are not a saved clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They end too early.
    #[error("the saved clock ends after {length} bytes; {needed} are needed at byte {at}")]
    Truncated {
        /// Where bytes are missing.
        at: usize,
        /// How many are needed there.
        needed: usize,
        /// The number of bytes.
        length: usize,
    },
    /// There are too many.
    #[error("{extra} bytes follow the saved clock")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// They begin with another magic number.
    #[error("the first 8 bytes are {found:#018x}, not those of a saved clock")]
    Magic {
        /// What is there.
        found: u64,
    },
    /// The version is unknown here.
    #[error("the saved clock has version {found}; this program knows version {VERSION}")]
    Version {
        /// What is there.
        found: u32,
    },
    /// A number that is not among the possible ones.
    #[error("{found} where {what} is expected")]
    Choice {
        /// What is there.
        found: u32,
        /// The possible values.
        what: &'static str,
    },
    /// A rate that no page can express.
    #[error("TSC frequency: {0}")]
    Rate(ScaleError),
    /// A register holds what no guest could have written.
    #[error("saved register: {0}")]
    Register(MsrError),
    /// vCPUs are not in order, or one appears twice.
    #[error("vCPU {} follows vCPU {}", .after.0, .before.0)]
    Order {
        /// The one before.
        before: VcpuId,
        /// The one after it.
        after: VcpuId,
    },
}

impl SavedGuestClock {
    /// The provider that saved it.
    pub const fn kind(&self) -> ClockProvider {
        self.kind
    }

    /// Real time when it was saved.
    pub const fn taken_at(&self) -> UnixTime {
        self.taken.real
    }

    /// The guest's clock: the latest of its vCPUs.
    pub const fn clock(&self) -> Nanos {
        self.clock
    }

    /// The advertised TSC frequency.
    pub const fn advertised_tsc(&self) -> Hertz {
        self.advertised_tsc
    }

    /// The same as a host with a TSC of another rate would have saved it, for a test of
    /// a move to a host of this one's.
    #[must_use]
    pub fn with_rate(mut self, rate: Hertz) -> Self {
        (self.advertised_tsc, self.tsc_rate) = (rate, rate);
        self.vcpus.iter_mut().for_each(|vcpu| vcpu.rate = rate);
        self
    }

    /// Its vCPUs, and their TSCs.
    pub fn vcpus(&self) -> impl Iterator<Item = (VcpuId, u64)> {
        self.vcpus.iter().map(|vcpu| (vcpu.id, vcpu.tsc))
    }

    /// Its bytes, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |value: u64, size: usize| {
            bytes.extend(value.to_le_bytes().iter().take(size));
        };
        put(MAGIC, 8);
        put(u64::from(VERSION), 4);
        put(
            ClockProvider::ALL.iter().position(|&kind| kind == self.kind).unwrap_or_default()
                as u64,
            4,
        );
        let Self { advertised_tsc, tsc_rate, taken, clock, spread, wall_clock, hyperv, .. } = self;
        let error = self.real_time_error.map_or(u64::MAX, |error| error.0);
        let tai = taken.tai_offset_s.map_or(NO_TAI, |s| i64::from(s).cast_unsigned());
        let host = [taken.boot.0, taken.tsc.0, tai];
        let clocks = [taken.real.0.0, error, clock.0, spread.0, *wall_clock];
        for value in [advertised_tsc.0, tsc_rate.0].into_iter().chain(clocks).chain(host) {
            put(value, 8);
        }
        put(u64::from(self.boot_vcpu_uses_old_msr), 4);
        put(u64::from(hyperv.sequence), 4);
        let rate = hyperv.unacknowledged.map_or(0, |rate| rate.0);
        let HyperV { guest_os_id, reference, reenlightenment, emulation_control, .. } = *hyperv;
        for value in [guest_os_id, reference.0, reenlightenment, emulation_control, rate] {
            put(value, 8);
        }
        put(hyperv.invariant_control, 8);
        put(self.vcpus.len() as u64, 4);
        for vcpu in &self.vcpus {
            put(u64::from(vcpu.id.0), 4);
            put(vcpu.tsc, 8);
            put(vcpu.rate.0, 8);
            put(vcpu.system_time.0, 8);
            put(vcpu.steal_time.0, 8);
        }
        bytes
    }

    /// From bytes of any origin.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder { bytes, at: 0 };
        let kind = from.header()?;
        let (advertised_tsc, tsc_rate) = (from.rate()?, from.rate()?);
        let real = UnixTime(Nanos(from.u64()?));
        let real_time_error = Some(from.u64()?).filter(|&error| error != u64::MAX).map(Nanos);
        let (clock, spread) = (Nanos(from.u64()?), Nanos(from.u64()?));
        let wall_clock = from.u64()?;
        let taken = from.host_clocks(real)?;
        let boot_vcpu_uses_old_msr = from.yes_or_no()?;
        let hyperv = from.hyperv()?;
        let count = from.u32()?;
        let mut vcpus = Vec::new();
        for _ in 0..count {
            let vcpu = from.vcpu()?;
            if let Some(&SavedVcpu { id: before, .. }) = vcpus.last()
                && before >= vcpu.id
            {
                return Err(DecodeError::Order { before, after: vcpu.id });
            }
            vcpus.push(vcpu);
        }
        if from.at < bytes.len() {
            return Err(DecodeError::Trailing { extra: bytes.len() - from.at });
        }
        Ok(Self {
            kind,
            advertised_tsc,
            tsc_rate,
            taken,
            real_time_error,
            clock,
            spread,
            wall_clock,
            boot_vcpu_uses_old_msr,
            hyperv,
            vcpus,
        })
    }
}

struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (at, length) = (self.at, self.bytes.len());
        let rest = self.bytes.get(at..).unwrap_or_default();
        let Some(taken) = rest.first_chunk::<N>() else {
            return Err(DecodeError::Truncated { at, needed: N, length });
        };
        self.at += N;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn header(&mut self) -> Result<ClockProvider, DecodeError> {
        let magic = self.u64()?;
        if magic != MAGIC {
            return Err(DecodeError::Magic { found: magic });
        }
        let version = self.u32()?;
        if version != VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let found = self.u32()?;
        let kind = usize::try_from(found).ok().and_then(|index| ClockProvider::ALL.get(index));
        kind.copied().ok_or(DecodeError::Choice { found, what: "a provider from 0 to 4" })
    }

    fn host_clocks(&mut self, real: UnixTime) -> Result<HostClocks, DecodeError> {
        let (boot, tsc, tai) = (Nanos(self.u64()?), Ticks(self.u64()?), self.u64()?);
        let tai_offset_s = match i32::try_from(tai.cast_signed()) {
            _ if tai == NO_TAI => None,
            Ok(offset) => Some(offset),
            Err(_) => {
                let what = "a TAI offset in s";
                return Err(DecodeError::Choice { found: (tai >> 32) as u32, what });
            }
        };
        Ok(HostClocks { tai_offset_s, ..HostClocks::new(tsc, boot, real) })
    }

    fn yes_or_no(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Choice { found, what: "0 or 1" }),
        }
    }

    fn rate(&mut self) -> Result<Hertz, DecodeError> {
        let rate = Hertz(self.u64()?);
        Scale::from_hertz(rate).map_err(DecodeError::Rate)?;
        Ok(rate)
    }

    fn hyperv(&mut self) -> Result<HyperV, DecodeError> {
        let sequence = self.u32()?;
        let [guest_os_id, reference, reenlightenment, emulation_control, rate] =
            [self.u64()?, self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        let invariant_control = self.u64()?;
        for (msr, value) in [
            (HV_REFERENCE_TSC, reference),
            (HV_REENLIGHTENMENT_CONTROL, reenlightenment),
            (HV_TSC_EMULATION_CONTROL, emulation_control),
            (HV_TSC_INVARIANT_CONTROL, invariant_control),
        ] {
            HyperV::check(msr, value).map_err(DecodeError::Register)?;
        }
        let unacknowledged = Some(Hertz(rate)).filter(|rate| rate.0 != 0);
        if let Some(rate) = unacknowledged {
            Scale::from_hertz(rate).map_err(DecodeError::Rate)?;
        }
        let reference = PageMsr(reference);
        Ok(HyperV {
            guest_os_id,
            reference,
            sequence,
            reenlightenment,
            emulation_control,
            invariant_control,
            unacknowledged,
            snapshot: None,
        })
    }

    fn vcpu(&mut self) -> Result<SavedVcpu, DecodeError> {
        let (id, tsc, rate) = (VcpuId(self.u32()?), self.u64()?, self.rate()?);
        let mut register = |msr, alignment| {
            PageMsr::checked(msr, self.u64()?, alignment).map_err(DecodeError::Register)
        };
        let system_time = register(KVM_SYSTEM_TIME, TIME_ALIGNMENT)?;
        let steal_time = register(KVM_STEAL_TIME, STEAL_ALIGNMENT)?;
        Ok(SavedVcpu { id, tsc, rate, system_time, steal_time })
    }
}
