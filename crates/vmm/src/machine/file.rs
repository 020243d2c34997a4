//! A saved machine with a Linux guest as bytes, for a file or a socket:
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `PVCVMM\0\0` |
//! | 4 | version, 4 |
//! | 4 | length of the description |
//! | that many | the description: JSON, the clocks in it as crates `kvm` and `host` write them |
//! | 8, 8, … | a run of memory: its address, its length, its bytes; again, until a length of 0 |
//! | 4 | CRC-32 of all before |
//!
//! Little-endian. A program knows its own version and refuses others: a machine
//! that is understood by half is restored wrong. What the host of the restore lacks is
//! found when it is [restored](crate::Machine::restore).

use std::io::{self, Read, Write};
use std::sync::Arc;

use ::kvm::KvmClockState;
use crc32fast::Hasher;
use guest::layout::{MEMORY_MIN, VCPUS_MAX};
use host::{HostClocks, SavedGuestClock};
use pvclock::{Hertz, Nanos};
use serde::{Deserialize, Serialize};

use super::saved::{SavedMachine, SavedMachineVcpu};
use crate::devices::{
    AcpiPmTimer, DevicesState, Hpet, LocalTimer, PmWidth, RtcChip, SerialPortState,
};
use crate::kvm::{Chips, VcpuState};
use crate::linux_boot::{self, HypercallPage, LinuxImage};
use crate::settings::{ClockBackend, Settings};
use crate::vcpu::NextExit;
use crate::vmclock::MachineVmClockSource;

const MAGIC: [u8; 8] = *b"PVCVMM\0\0";
const VERSION: u32 = 4;
/// Four vCPUs take some 200 KB.
const DESCRIPTION_MAX: u32 = 16 << 20;
const PAGE: u64 = 4096;

/// Why a saved machine is not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file or socket.
    #[error("the saved machine: {0}")]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("the saved machine is truncated {within}")]
    CutShort {
        /// Where.
        within: &'static str,
    },
    /// It begins with other bytes.
    #[error("the first 8 bytes are {found:x?}, not those of a saved machine")]
    Magic {
        /// What is there.
        found: [u8; 8],
    },
    /// Another program saved it.
    #[error("the saved machine has version {found}; this program reads version {VERSION}")]
    Version {
        /// What is there.
        found: u32,
    },
    /// What is described is no such machine.
    #[error("the saved machine's description: {0}")]
    Description(String),
    /// Memory that it does not have.
    #[error("{bytes} bytes of memory at {address:#x} do not fit between {before:#x} and {size:#x}")]
    Memory {
        /// Where the run begins.
        address: u64,
        /// Its length.
        bytes: u64,
        /// Where the run before it ended.
        before: u64,
        /// The machine's memory.
        size: u64,
    },
    /// A bit is wrong somewhere.
    #[error("the saved machine's checksum is {found:#010x}, but its bytes sum to {computed:#010x}")]
    Checksum {
        /// As written.
        found: u32,
        /// As it should be.
        computed: u32,
    },
    /// Only a Linux guest is written: the lab's own is restored in its own process.
    #[error("only a machine with a Linux guest can be written to a file")]
    NotLinux,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    memory: u64,
    vcpus: Vec<VcpuState>,
    chips: Chips,
    rtc: Option<RtcChip>,
    serial: SerialPortState,
    own_time_ns: u64,
    clock: KvmClockState,
    host: Option<SavedGuestClock>,
    /// Where the VMClock's time came from, and its marks.
    vmclock: Option<(MachineVmClockSource, (u64, u64))>,
    hypercalls: Option<HypercallPage>,
    taken: HostClocks,
    timers: Timers,
    /// Of a guest of our provider.
    provider: Option<SavedProvider>,
}

/// The PM timer's width, and the HPET's count and since when it runs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Timers {
    pm_timer: Option<PmWidth>,
    hpet: Option<(u64, Option<u64>)>,
}

/// The settings of a provider that are not its host's, nor in what it saved.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedProvider {
    never_back: bool,
    sync_period_ns: Option<u64>,
    apic_hz: u64,
    tsc_invariant: bool,
}

impl SavedProvider {
    fn from_backend(backend: &ClockBackend) -> Option<Self> {
        let ClockBackend::Own(settings) = backend else { return None };
        Some(Self {
            never_back: settings.never_back,
            sync_period_ns: settings.sync_period.map(|period| period.0),
            apic_hz: settings.apic.0,
            tsc_invariant: settings.tsc_invariant,
        })
    }

    fn give(&self, settings: &mut host::ClockSettings) {
        settings.never_back = self.never_back;
        settings.sync_period = self.sync_period_ns.map(Nanos);
        settings.apic = Hertz(self.apic_hz);
        settings.tsc_invariant = self.tsc_invariant;
    }
}

/// What goes through it is summed.
struct Summed<T> {
    inner: T,
    sum: Hasher,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Summed<R> {
    /// In pieces: a length that is a lie takes no memory.
    fn bytes(&mut self, length: u64, within: &'static str) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        self.inner.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(FileError::CutShort { within });
        }
        self.sum.update(&bytes);
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, within: &'static str) -> Result<[u8; N], FileError> {
        let bytes = self.bytes(N as u64, within)?;
        bytes.try_into().map_err(|_| FileError::CutShort { within })
    }

    fn u64(&mut self, within: &'static str) -> Result<u64, FileError> {
        Ok(u64::from_le_bytes(self.array(within)?))
    }
}

impl SavedMachine {
    /// Writes it.
    ///
    /// # Errors
    /// [`FileError::NotLinux`], or the file's.
    pub fn write_to(&self, file: impl Write) -> Result<(), FileError> {
        let description = self.description()?;
        let description = serde_json::to_vec(&description).map_err(wrong)?;
        let mut to = Summed { inner: io::BufWriter::new(file), sum: Hasher::new() };
        to.put(&MAGIC)?;
        to.put(&VERSION.to_le_bytes())?;
        to.put(&(description.len() as u32).to_le_bytes())?;
        to.put(&description)?;
        for (address, bytes) in &self.memory {
            to.put(&address.to_le_bytes())?;
            to.put(&(bytes.len() as u64).to_le_bytes())?;
            to.put(bytes)?;
        }
        to.put(&[0; 16])?;
        let sum = to.sum.clone().finalize();
        to.put(&sum.to_le_bytes())?;
        Ok(to.inner.flush()?)
    }

    /// Reads one, of any origin.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_from(file: impl Read) -> Result<Self, FileError> {
        let mut from = Summed { inner: io::BufReader::new(file), sum: Hasher::new() };
        let found = from.array("in its first bytes")?;
        if found != MAGIC {
            return Err(FileError::Magic { found });
        }
        let found = u32::from_le_bytes(from.array("before its version")?);
        if found != VERSION {
            return Err(FileError::Version { found });
        }
        let within = "in its description";
        let length = u32::from_le_bytes(from.array(within)?);
        if length > DESCRIPTION_MAX {
            return Err(wrong(format!("{length} bytes; at most {DESCRIPTION_MAX} are possible")));
        }
        let text = from.bytes(length.into(), within)?;
        let description = serde_json::from_slice::<Description>(&text).map_err(wrong)?;
        let mut saved = description.saved()?;
        let (size, mut before, within) = (saved.settings.memory, 0, "in its memory");
        loop {
            let (address, bytes) = (from.u64(within)?, from.u64(within)?);
            if bytes == 0 {
                break;
            }
            let end = address.checked_add(bytes).filter(|end| *end <= size && address >= before);
            let Some(end) = end.filter(|_| address % PAGE == 0) else {
                return Err(FileError::Memory { address, bytes, before, size });
            };
            saved.memory.push((address, from.bytes(bytes, within)?));
            before = end;
        }
        let computed = from.sum.clone().finalize();
        let found = u32::from_le_bytes(from.array("before its checksum")?);
        if found == computed { Ok(saved) } else { Err(FileError::Checksum { found, computed }) }
    }

    fn description(&self) -> Result<Description, FileError> {
        let chips = self.chips.clone().ok_or(FileError::NotLinux)?;
        Ok(Description {
            memory: self.settings.memory,
            vcpus: self.vcpus.iter().map(|vcpu| vcpu.state.clone()).collect(),
            chips,
            rtc: self.devices.rtc.clone(),
            serial: self.devices.serial.clone(),
            own_time_ns: self.own_time.0,
            clock: self.clock.clone(),
            host: self.host.clone(),
            vmclock: self.settings.vmclock.zip(self.vmclock),
            hypercalls: self.hypercalls.clone(),
            taken: self.taken,
            timers: Timers {
                pm_timer: self.devices.pm_timer.map(|timer| timer.width),
                hpet: self
                    .devices
                    .hpet
                    .map(|hpet| (hpet.counter, hpet.running_since.map(|since| since.0))),
            },
            provider: SavedProvider::from_backend(&self.settings.backend),
        })
    }
}

impl Description {
    /// Without its memory.
    fn saved(self) -> Result<SavedMachine, FileError> {
        if self.provider.is_some() != self.host.is_some() {
            return Err(wrong("a provider's clock has its settings, and no other has"));
        }
        let since_ns = self.timers.hpet.and_then(|(_, since_ns)| since_ns).unwrap_or(0);
        let now_ns = self.own_time_ns;
        if since_ns > now_ns {
            let why = format!("the HPET started at {since_ns} ns, after the save at {now_ns} ns");
            return Err(wrong(why));
        }
        let Self { clock, host, taken, .. } = self;
        let (count, sizes) = (self.vcpus.len(), MEMORY_MIN..=linux_boot::MEMORY_MAX);
        let of_clock = [clock.tscs.len(), host.as_ref().map_or(count, |host| host.vcpus().count())];
        if !(1..=VCPUS_MAX).contains(&count) || of_clock != [count; 2] {
            return Err(wrong(format!("{count} vCPUs, but the clocks of {of_clock:?}")));
        }
        if !sizes.contains(&self.memory) || !self.vcpus.iter().all(VcpuState::is_linux) {
            return Err(wrong(format!(
                "not a Linux guest, or {} bytes of memory, which none can have",
                self.memory
            )));
        }
        if !self.chips.is_whole() || !self.rtc.as_ref().is_none_or(RtcChip::is_possible) {
            return Err(wrong(
                "impossible state of the interrupt controllers or the real-time clock",
            ));
        }
        // The provider of the machine that continues it is told the rate of its host.
        let backend = match &host {
            None => ClockBackend::Kernel,
            Some(host) => {
                let settings = host::ClockSettings::new(host.kind(), Hertz(1_000_000_000));
                ClockBackend::Own(settings.changed(|new| {
                    self.provider.iter().for_each(|provider| provider.give(new));
                }))
            }
        };
        let image = LinuxImage { kernel: Arc::new([]), initrd: None, command_line: String::new() };
        let settings = Settings::linux(backend, image);
        let vmclock = self.vmclock.map(|(source, _)| source);
        let settings = Settings { memory: self.memory, vmclock, ..settings };
        let timer = LocalTimer::new(0, Hertz(1_000_000_000));
        let vcpus = self.vcpus.into_iter().map(|state| {
            let (next, guest_fault) = (NextExit::Enter, None);
            SavedMachineVcpu { state, timer, next, guest_fault, last_request: 0, tail: 0 }
        });
        Ok(SavedMachine {
            memory: Vec::new(),
            vcpus: vcpus.collect(),
            devices: DevicesState {
                pm_timer: self.timers.pm_timer.map(|width| AcpiPmTimer { width }),
                hpet: self
                    .timers
                    .hpet
                    .map(|(counter, since)| Hpet { counter, running_since: since.map(Nanos) }),
                pit: None,
                rtc: self.rtc,
                serial: self.serial,
            },
            own_time: Nanos(self.own_time_ns),
            clock,
            host,
            vmclock: self.vmclock.map(|(_, marks)| marks),
            taken,
            chips: Some(self.chips),
            hypercalls: self.hypercalls,
            settings: Settings { vcpus: count, ..settings },
        })
    }
}

fn wrong(why: impl ToString) -> FileError {
    FileError::Description(why.to_string())
}

#[cfg(test)]
mod tests;
