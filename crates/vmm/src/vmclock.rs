//! The VMClock device: a page of guest memory that tells the host's time in the guest's
//! TSC ([`host::vmclock`] has what is written).
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

use crate::Machine;
use crate::error::MachineError;
use crate::host_clock::{self, HostReading};
use crate::kvm;
use crate::memory::GuestRam;

/// The page: below 1 MiB, where a PC has its firmware.
const ADDRESS: u64 = 0xe_f000;
/// TAI less UTC since 2017, s, where the host's kernel was told none.
const TAI_OFFSET_S: i32 = 37;

/// What a reading of the host's clocks is worth: it is taken for the truth, for experiments
/// on hosts without a time daemon.
fn sample(reading: &HostReading, rate: Hertz) -> Option<TimeSample> {
    let clocks = &reading.clocks;
    let tai_offset_s = clocks.tai_offset_s.unwrap_or(TAI_OFFSET_S);
    let tai = clocks.real.0.0.checked_add_signed(i64::from(tai_offset_s) * 1_000_000_000)?;
    let half_ns = u128::from(reading.width) * 500_000_000 / u128::from(rate.0.max(1)) + 1;
    let error = Nanos(u64::try_from(half_ns).ok()?);
    Some(TimeSample::new(clocks.tsc, Nanos(tai), error, tai_offset_s))
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
    page: HostVmClock,
    /// What the page is to tell, by the host's clocks.
    time: HostTime,
    rate: Hertz,
    /// Each vCPU's TSC less the host's, wrapping.
    offsets: Vec<u64>,
    host_has_tsc: bool,
}

impl MachineVmClock {
    /// Of a machine whose vCPUs have these TSC offsets; its page is written, before
    /// any of them runs.
    ///
    /// # Errors
    /// The page is outside of guest memory.
    pub(crate) fn start(
        rate: Hertz,
        offsets: Vec<u64>,
        restoring: Option<Restoring>,
        ram: &GuestRam,
    ) -> Result<Self, MachineError> {
        let time = HostTime::new(TimeSettings::new(rate));
        let (marker, generation) = restoring.map_or((0, 0), |saved| saved.marks);
        let (settings, counter) = (VmClockSettings::default(), counter(&offsets));
        let now = host_clock::read().tsc;
        let (page, new) = HostVmClock::continued(settings, counter, marker, generation, &time, now);
        let mut device = Self { page, time, rate, offsets, host_has_tsc: true };
        match restoring {
            None => {
                ram.write(ADDRESS, &new.info.to_bytes())?;
                device.tick(ram);
            }
            Some(saved) => {
                let now = device.sample();
                let update = device.page.restored(counter, saved.generation, &device.time, now);
                write(&update, ram);
            }
        }
        Ok(device)
    }

    /// Its disruption marker and generation, to be saved.
    pub(crate) const fn marks(&self) -> (u64, u64) {
        self.page.marks()
    }

    /// Writes the time as it is known now.
    pub(crate) fn tick(&mut self, ram: &GuestRam) {
        let now = self.sample();
        write(&self.page.update(&self.time, now), ram);
    }

    /// Whether the host still counts its TSC.
    pub(crate) fn host_has_tsc(&mut self, has: bool, ram: &GuestRam) {
        if std::mem::replace(&mut self.host_has_tsc, has) != has {
            self.disrupted(ram);
        }
    }

    /// A vCPU's TSC was set, while none runs.
    pub(crate) fn tsc_set(&mut self, vcpu: VcpuId, offset: u64, ram: &GuestRam) {
        let known = self.offsets.get_mut(vcpu.0 as usize);
        if known.is_some_and(|known| std::mem::replace(known, offset) != offset) {
            self.disrupted(ram);
        }
    }

    fn disrupted(&mut self, ram: &GuestRam) {
        let now = self.sample();
        write(&self.page.moved(counter(&self.offsets), &self.time, now), ram);
    }

    /// Takes a sample of the host's time, where one TSC counts for all.
    fn sample(&mut self) -> Ticks {
        let reading = host_clock::read_with_width();
        let now = reading.clocks.tsc;
        if self.host_has_tsc && self.offsets.windows(2).all(|pair| pair[0] == pair[1]) {
            self.time.update(now, sample(&reading, self.rate).as_slice());
        } else {
            self.time.forget();
        }
        now
    }
}

fn counter(offsets: &[u64]) -> GuestCounter {
    GuestCounter { ratio: TscRatio::ONE, offset: offsets.first().copied().unwrap_or(0) }
}

/// A guest may write to its page as well: what it loses is its own.
fn write(update: &PageUpdate, ram: &GuestRam) {
    if let Ok(page) = ram.page::<VmClockPage>(ClockAddress(ADDRESS)) {
        VmClockWriter::new(page).write(&update.info);
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
        if self.settings.vmclock {
            let rate = kvm::query_host(kvm)?.tsc.frequency;
            let offsets = (0..self.vcpus()).map(|vcpu| self.tsc_offset(vcpu));
            let offsets = offsets.collect::<Result<_, _>>()?;
            // Random, as another copy has its own.
            let generation = || RandomState::new().hash_one(0);
            let restoring = marks.map(|marks| Restoring { marks, generation: generation() });
            let device = MachineVmClock::start(rate, offsets, restoring, &self.shared.ram)?;
            self.shared.lock().vmclock = Some(device);
        }
        Ok(())
    }

    /// What the guest's VMClock page holds; none without the device.
    pub fn vmclock(&self) -> Option<VmClockInfo> {
        self.settings.vmclock.then(|| read(&self.shared.ram)).flatten()
    }
}

#[cfg(test)]
mod tests;
