//! A VM's clock at rest: what is kept of it, and as which bytes.
//!
//! The bytes, little-endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `PVCLOCK` and a zero |
//! | 4 | version, 1 |
//! | 4 | kind, by its place in [`Kind::ALL`] |
//! | 8 × 7 | rate told, true rate of the TSC, real time, its error (all ones: unknown), clock, spread, wall clock MSR |
//! | 4, 4 | whether the boot vCPU uses the old MSRs; Hyper-V sequence |
//! | 8 × 5 | Hyper-V: OS id, page, re-enlightenment, emulation control, rate not taken note of (0: none) |
//! | 4 | how many vCPUs |
//! | 28 each | index (4), TSC, system time MSR, steal time MSR |
//!
//! They come from a file, so nothing in them is trusted: registers pass the
//! checks that a guest's own writes pass, and addresses are looked up in the
//! guest's memory again when they are used.

use alloc::vec::Vec;

use pvclock::{Hertz, Nanos, Scale, ScaleError};

use crate::guest_clock::hyperv::HyperV;
use crate::msr::{
    HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC, HV_TSC_EMULATION_CONTROL, KVM_STEAL_TIME,
    KVM_SYSTEM_TIME, PageMsr, STEAL_ALIGNMENT, TIME_ALIGNMENT,
};
use crate::{Kind, MsrError, VcpuId};
use units::UnixTime;

const MAGIC: u64 = u64::from_le_bytes(*b"PVCLOCK\0");
const VERSION: u32 = 1;

/// A VM's clock at rest. [`GuestClock::save`](crate::Host::save) makes it,
/// [`GuestClock::restore`](crate::Host::restore) takes it.
///
/// ```
/// use host::{Event, GuestClock, Kind, PlainMemory, Reading, Saved, Settings, VcpuId};
/// use units::UnixTime;
/// use pvclock::{Hertz, Nanos, Ticks};
///
/// let at = |ns| Reading { tsc: Ticks(2 * ns), boot: Nanos(ns), real: UnixTime(Nanos(ns)) };
/// let mut host = GuestClock::new(Settings::new(Kind::Kvm, Hertz(2_000_000_000)), at(0))?;
/// let created = Event::VcpuCreated { vcpu: VcpuId(0), tsc_offset: 0 };
/// host.handle(created, at(0), &PlainMemory::new(0));
/// let saved = host.save(at(700));
/// assert_eq!(saved.clock(), Nanos(700));
/// assert_eq!(Saved::from_bytes(&saved.to_bytes()), Ok(saved));
/// # Ok::<(), host::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub(crate) kind: Kind,
    pub(crate) told: Hertz,
    /// What the guest's TSC truly ran at.
    pub(crate) tsc_rate: Hertz,
    pub(crate) taken_at: UnixTime,
    pub(crate) real_time_error: Option<Nanos>,
    pub(crate) clock: Nanos,
    /// How far the vCPUs' clocks lay apart.
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
    pub(crate) system_time: PageMsr,
    pub(crate) steal_time: PageMsr,
}

/// Bytes that are no saved clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("{length} bytes, where {needed} more are needed at byte {at}")]
    Truncated {
        /// Where.
        at: usize,
        /// How many.
        needed: usize,
        /// How many there are in all.
        length: usize,
    },
    /// They go on.
    #[error("{extra} bytes follow the saved clock")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// Something else.
    #[error("the first 8 bytes are {found:#018x}, not a saved clock's")]
    Magic {
        /// What is there.
        found: u64,
    },
    /// Of a version that is not known here.
    #[error("version {found} of a saved clock; 1 is known")]
    Version {
        /// What is there.
        found: u32,
    },
    /// No such provider, or no such answer to yes or no.
    #[error("{found} where {what} is expected")]
    Choice {
        /// What is there.
        found: u32,
        /// What it should be.
        what: &'static str,
    },
    /// A rate that no page can express.
    #[error("a TSC's rate: {0}")]
    Rate(ScaleError),
    /// A register holds what no guest could have written.
    #[error("a register: {0}")]
    Register(MsrError),
    /// vCPUs not in order, or one twice.
    #[error("vCPU {} follows vCPU {}", .after.0, .before.0)]
    Order {
        /// The one before.
        before: VcpuId,
        /// The one after it.
        after: VcpuId,
    },
}

impl Saved {
    /// Which provider's.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Real time when it was saved.
    pub const fn taken_at(&self) -> UnixTime {
        self.taken_at
    }

    /// What the guest's clock said: the latest of its vCPUs.
    pub const fn clock(&self) -> Nanos {
        self.clock
    }

    /// The rate the guest was told.
    pub const fn told(&self) -> Hertz {
        self.told
    }

    /// Its vCPUs, and their TSCs.
    pub fn vcpus(&self) -> impl Iterator<Item = (VcpuId, u64)> {
        self.vcpus.iter().map(|vcpu| (vcpu.id, vcpu.tsc))
    }

    /// As bytes, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |value: u64, size: usize| {
            bytes.extend(value.to_le_bytes().iter().take(size));
        };
        put(MAGIC, 8);
        put(u64::from(VERSION), 4);
        put(Kind::ALL.iter().position(|&kind| kind == self.kind).unwrap_or_default() as u64, 4);
        let Self { told, tsc_rate, taken_at, clock, spread, wall_clock, hyperv, .. } = self;
        let error = self.real_time_error.map_or(u64::MAX, |error| error.0);
        for value in [told.0, tsc_rate.0, taken_at.0.0, error, clock.0, spread.0, *wall_clock] {
            put(value, 8);
        }
        put(u64::from(self.boot_vcpu_uses_old_msr), 4);
        put(u64::from(hyperv.sequence), 4);
        let rate = hyperv.unacknowledged.map_or(0, |rate| rate.0);
        let HyperV { guest_os_id, reference, reenlightenment, emulation_control, .. } = *hyperv;
        for value in [guest_os_id, reference.0, reenlightenment, emulation_control, rate] {
            put(value, 8);
        }
        put(self.vcpus.len() as u64, 4);
        for vcpu in &self.vcpus {
            put(u64::from(vcpu.id.0), 4);
            put(vcpu.tsc, 8);
            put(vcpu.system_time.0, 8);
            put(vcpu.steal_time.0, 8);
        }
        bytes
    }

    /// From bytes, of any origin.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder { bytes, at: 0 };
        let kind = from.header()?;
        let (told, tsc_rate) = (from.rate()?, from.rate()?);
        let taken_at = UnixTime(Nanos(from.u64()?));
        let real_time_error = Some(from.u64()?).filter(|&error| error != u64::MAX).map(Nanos);
        let (clock, spread) = (Nanos(from.u64()?), Nanos(from.u64()?));
        let wall_clock = from.u64()?;
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
            told,
            tsc_rate,
            taken_at,
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

    fn header(&mut self) -> Result<Kind, DecodeError> {
        let magic = self.u64()?;
        if magic != MAGIC {
            return Err(DecodeError::Magic { found: magic });
        }
        let version = self.u32()?;
        if version != VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let found = self.u32()?;
        let kind = usize::try_from(found).ok().and_then(|index| Kind::ALL.get(index));
        kind.copied().ok_or(DecodeError::Choice { found, what: "a provider, 0 to 4" })
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
        for (msr, value) in [
            (HV_REFERENCE_TSC, reference),
            (HV_REENLIGHTENMENT_CONTROL, reenlightenment),
            (HV_TSC_EMULATION_CONTROL, emulation_control),
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
            unacknowledged,
            line: None,
        })
    }

    fn vcpu(&mut self) -> Result<SavedVcpu, DecodeError> {
        let (id, tsc) = (VcpuId(self.u32()?), self.u64()?);
        let mut register = |msr, alignment| {
            PageMsr::checked(msr, self.u64()?, alignment).map_err(DecodeError::Register)
        };
        let system_time = register(KVM_SYSTEM_TIME, TIME_ALIGNMENT)?;
        let steal_time = register(KVM_STEAL_TIME, STEAL_ALIGNMENT)?;
        Ok(SavedVcpu { id, tsc, system_time, steal_time })
    }
}
