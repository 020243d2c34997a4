//! The VMClock device: a page of guest memory that tells the host's time in the guest's
//! TSC, and an interrupt ([`host::vmclock`] has what is written; Linux:
//! drivers/ptp/ptp_vmclock.c).
//!
//! One TSC counts for all vCPUs: while their offsets differ, or the host has given its
//! own TSC up, the page tells no time.

use std::hash::{BuildHasher as _, RandomState};

use host::pages::VmClockPage;
use host::vmclock::{
    GuestCounter, HostTime, HostVmClock, PageUpdate, TimeSample, TimeSettings, VmClockSettings,
};
use host::{ClockAddress, ClockMemory as _, TscRatio, VcpuId};
use kvm_ioctls::Kvm;
use pvclock::vmclock::{VmClockInfo, VmClockReader, VmClockWriter};
use pvclock::{Hertz, Nanos, Ticks};
use vmm_sys_util::eventfd::EventFd;

use crate::Machine;
use crate::error::MachineError;
use crate::host_clock::{self, HostReading};
use crate::kvm;
use crate::memory::GuestRam;

/// The page: below 1 MiB, where a PC has its firmware and Linux's memory map a hole.
pub(crate) const ADDRESS: u64 = 0xe_f000;
/// Its region.
pub(crate) const BYTES: u32 = 0x1000;
/// The pin of its interrupt: the first behind those that PCs give to PCI.
pub(crate) const INTERRUPT: u32 = 20;

/// What a reading of the host's clocks is worth: it is taken for the truth, for experiments
/// on hosts without a time daemon, and where the host's kernel was told no TAI offset, this
/// one.
fn sample(reading: &HostReading, rate: Hertz, tai_offset_s: i32) -> Option<TimeSample> {
    let clocks = &reading.clocks;
    let tai_offset_s = clocks.tai_offset_s.unwrap_or(tai_offset_s);
    let tai = clocks.real.0.0.checked_add_signed(i64::from(tai_offset_s) * 1_000_000_000)?;
    let half_ns = u128::from(reading.width) * 500_000_000 / u128::from(rate.0.max(1)) + 1;
    let error = Nanos(u64::try_from(half_ns).ok()?);
    Some(TimeSample::new(clocks.tsc, Nanos(tai), error, tai_offset_s))
}

/// What the page is to tell, by the host's clocks.
#[derive(Debug)]
struct VmClockInput {
    tai_offset_s: i32,
    rate: Hertz,
    time: HostTime,
    /// Each vCPU's TSC less the host's, wrapping.
    offsets: Vec<u64>,
    host_has_tsc: bool,
}

impl VmClockInput {
    /// Takes a sample of the host's time, where one TSC counts for all.
    fn sample(&mut self) -> Ticks {
        let reading = host_clock::read_with_width();
        let now = reading.clocks.tsc;
        if self.host_has_tsc && self.offsets.windows(2).all(|pair| pair[0] == pair[1]) {
            let sample = sample(&reading, self.rate, self.tai_offset_s);
            self.time.update(now, sample.as_slice());
        } else {
            self.time.forget();
        }
        now
    }

    fn counter(&self) -> GuestCounter {
        let offset = self.offsets.first().copied().unwrap_or(0);
        GuestCounter { ratio: TscRatio::ONE, offset }
    }
}

/// The marks of a saved machine's page, and the generation of the one restored from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restoring {
    pub(crate) marks: (u64, u64),
    pub(crate) generation: u64,
}

/// The device.
#[derive(Debug)]
pub(crate) struct MachineVmClock {
    input: VmClockInput,
    page: HostVmClock,
    line: Option<EventFd>,
}

impl MachineVmClock {
    /// Of a machine whose vCPUs have these TSC offsets; its page is written, before
    /// any of them runs.
    ///
    /// # Errors
    /// The page is outside of guest memory.
    pub(crate) fn start(
        tai_offset_s: i32,
        (rate, offsets): (Hertz, Vec<u64>),
        line: Option<EventFd>,
        restoring: Option<Restoring>,
        ram: &GuestRam,
    ) -> Result<Self, MachineError> {
        let time = HostTime::new(TimeSettings::new(rate));
        let mut input = VmClockInput { tai_offset_s, rate, time, offsets, host_has_tsc: true };
        let settings = VmClockSettings::default();
        let settings = if line.is_some() { settings.notifying() } else { settings };
        let (now, counter) = (input.sample(), input.counter());
        let (marker, generation) = restoring.map_or((0, 0), |saved| saved.marks);
        let (mut page, new) =
            HostVmClock::continued(settings, counter, marker, generation, &input.time, now);
        let update = match restoring {
            None => {
                ram.write(ADDRESS, &new.info.to_bytes())?;
                new
            }
            Some(saved) => page.restored(counter, saved.generation, &input.time, now),
        };
        let mut device = Self { input, page, line };
        device.write(&update, ram);
        Ok(device)
    }

    /// Its disruption marker and generation, to be saved.
    pub(crate) const fn marks(&self) -> (u64, u64) {
        self.page.marks()
    }

    /// Writes the time as it is known now.
    pub(crate) fn tick(&mut self, ram: &GuestRam) {
        let now = self.input.sample();
        let update = self.page.update(&self.input.time, now);
        self.write(&update, ram);
    }

    /// Whether the host still counts its TSC.
    pub(crate) fn host_has_tsc(&mut self, has: bool, ram: &GuestRam) {
        if std::mem::replace(&mut self.input.host_has_tsc, has) != has {
            self.disrupted(ram);
        }
    }

    /// A vCPU's TSC was set, while none runs.
    pub(crate) fn tsc_set(&mut self, vcpu: VcpuId, offset: u64, ram: &GuestRam) {
        let known = self.input.offsets.get_mut(vcpu.0 as usize);
        if known.is_some_and(|known| std::mem::replace(known, offset) != offset) {
            self.disrupted(ram);
        }
    }

    fn disrupted(&mut self, ram: &GuestRam) {
        let now = self.input.sample();
        let update = self.page.moved(self.input.counter(), &self.input.time, now);
        self.write(&update, ram);
    }

    /// A guest may write to its page as well: what it loses is its own.
    fn write(&mut self, update: &PageUpdate, ram: &GuestRam) {
        if let Ok(page) = ram.page::<VmClockPage>(ClockAddress(ADDRESS)) {
            VmClockWriter::new(page).write(&update.info);
        }
        if let Some(line) = self.line.as_ref().filter(|_| update.notify) {
            // Full: it is raised already.
            let _ = line.write(1);
        }
    }
}

/// What the guest sees, if there is a page and nobody writes it for ever.
fn read(ram: &GuestRam) -> Option<VmClockInfo> {
    let page = ram.page::<VmClockPage>(ClockAddress(ADDRESS)).ok()?;
    VmClockReader::new(page).ok()?.info().ok()
}

impl Machine {
    /// Writes the page of a new machine, or of one restored with these marks.
    pub(crate) fn start_vmclock(
        &self,
        kvm: &Kvm,
        marks: Option<(u64, u64)>,
    ) -> Result<(), MachineError> {
        let Some(tai_offset_s) = self.settings.vmclock else { return Ok(()) };
        let rate = kvm::query_host(kvm)?.tsc.frequency;
        let offsets: Result<Vec<_>, _> =
            (0..self.vcpus()).map(|vcpu| self.tsc_offset(vcpu)).collect();
        let line = self.settings.linux.as_ref();
        let line = line.map(|_| kvm::interrupt_line(&self.vm, INTERRUPT)).transpose()?;
        // Random, as another copy has its own.
        let generation = || RandomState::new().hash_one(0);
        let restoring = marks.map(|marks| Restoring { marks, generation: generation() });
        let ram = &self.shared.ram;
        let device = MachineVmClock::start(tai_offset_s, (rate, offsets?), line, restoring, ram)?;
        self.shared.lock().vmclock = Some(device);
        Ok(())
    }

    /// What the guest's VMClock page holds; none without the device.
    pub fn vmclock(&self) -> Option<VmClockInfo> {
        self.settings.vmclock.and_then(|_| read(&self.shared.ram))
    }
}

#[cfg(test)]
mod tests;
