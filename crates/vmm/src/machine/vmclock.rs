//! The machine's VMClock: started before a vCPU runs, and read as its guest does.

use std::hash::{BuildHasher as _, RandomState};

use kvm_ioctls::Kvm;
use pvclock::vmclock::VmClockInfo;

use super::Machine;
use crate::error::MachineError;
use crate::kvm;
use crate::vmclock::{self, MachineVmClock, Restoring};

impl Machine {
    /// Writes the page of a new machine, or of one restored with these marks.
    pub(super) fn start_vmclock(
        &self,
        kvm: &Kvm,
        marks: Option<(u64, u64)>,
    ) -> Result<(), MachineError> {
        let Some(source) = self.settings.vmclock else { return Ok(()) };
        let rate = kvm::query_host(kvm)?.frequency;
        let offsets: Result<Vec<_>, _> =
            (0..self.vcpus()).map(|vcpu| self.tsc_offset(vcpu)).collect();
        let line = self.settings.linux.as_ref();
        let line = line.map(|_| kvm::interrupt_line(&self.vm, vmclock::INTERRUPT)).transpose()?;
        // Random, as another copy has its own.
        let generation = || RandomState::new().hash_one(0);
        let restoring = marks.map(|marks| Restoring { marks, generation: generation() });
        let ram = &self.shared.ram;
        let device = MachineVmClock::start(source, (rate, offsets?), line, restoring, ram)?;
        self.shared.lock().vmclock = Some(device);
        Ok(())
    }

    /// What the guest's VMClock page holds; none without the device.
    pub fn vmclock(&self) -> Option<VmClockInfo> {
        self.settings.vmclock.and_then(|_| vmclock::read(&self.shared.ram))
    }
}
