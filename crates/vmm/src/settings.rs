//! A machine's settings.

use std::time::Duration;

use crate::error::MachineError;
use crate::linux_boot::LinuxImage;
use guest::layout;
use host::ticks::TickPolicy;
use host::{ClockProvider, TscMode};

/// Which side implements the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockBackend {
    /// KVM's own kvm-clock, in the kernel.
    Kernel,
    /// KVM's own Hyper-V clock, in the kernel.
    KernelHyperV,
    /// Our provider: KVM exits to us on its MSRs, and we write the pages.
    Own(host::ClockSettings),
}

impl ClockBackend {
    /// RDTSC never exits here, and no vCPU's rate is set: a provider that
    /// relies on either would advertise a wrong TSC frequency.
    pub(crate) fn check(&self) -> Result<(), MachineError> {
        let Self::Own(settings) = self else { return Ok(()) };
        if settings.tsc_mode == TscMode::Emulated || settings.tsc_trapping {
            return Err(MachineError::NotInThisMachine { what: "trap RDTSC" });
        }
        if settings.tsc_scaling.is_some() {
            return Err(MachineError::NotInThisMachine { what: "scale the TSC" });
        }
        Ok(())
    }
}

/// A machine's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The number of vCPUs.
    pub vcpus: usize,
    /// Guest memory, in bytes.
    pub memory: u64,
    /// Which side implements the clock.
    pub backend: ClockBackend,
    /// Whether there is a real-time clock.
    pub rtc: bool,
    /// What becomes of ticks of periodic timers that a vCPU missed.
    pub ticks: TickPolicy,
    /// Physical CPUs for the vCPUs, in order and repeated; if empty, the
    /// scheduler chooses.
    pub affinity: Vec<u32>,
    /// The timeout of a request.
    pub timeout: Duration,
    /// A Linux kernel in place of the lab's own guest.
    pub linux: Option<LinuxImage>,
    /// Whether there is a VMClock with the host's time; Linux does not find it.
    pub vmclock: bool,
    /// A network card, whose peer answers echo requests after this delay. Its thread
    /// runs on the CPU of `affinity` after the vCPUs'.
    pub network: Option<Duration>,
}

impl Settings {
    /// One vCPU, all devices.
    pub fn new(backend: ClockBackend) -> Self {
        Self {
            vcpus: 1,
            memory: layout::MEMORY_MIN,
            backend,
            rtc: true,
            ticks: TickPolicy::Merge,
            affinity: Vec::new(),
            timeout: Duration::from_secs(10),
            linux: None,
            vmclock: false,
            network: None,
        }
    }

    /// One vCPU with a Linux kernel and 256 MiB: KVM's interrupt controllers and
    /// PIT, a real-time clock in UTC, an ACPI PM timer, an HPET, a serial port.
    pub fn linux(backend: ClockBackend, image: LinuxImage) -> Self {
        Self { memory: 256 << 20, linux: Some(image), ..Self::new(backend) }
    }
}

impl Settings {
    /// The physical CPU of the thread of this number: the vCPUs', then the network's.
    pub(crate) fn cpu(&self, thread: usize) -> Option<u32> {
        self.affinity.get(thread % self.affinity.len().max(1)).copied()
    }

    /// Whether KVM has the interrupt controllers: a card's interrupts are messages, which
    /// it alone can deliver to a vCPU that runs.
    pub(crate) fn has_kernel_apic(&self) -> bool {
        self.linux.is_some() || self.network.is_some()
    }

    /// Whether this machine, and not KVM, has Hyper-V's hypercall page.
    pub(crate) fn has_hypercall_page(&self) -> bool {
        let is_hyperv = |settings: &host::ClockSettings| settings.kind == ClockProvider::HyperV;
        matches!(&self.backend, ClockBackend::Own(own) if is_hyperv(own))
    }
}

#[cfg(test)]
mod tests {
    use pvclock::Hertz;

    use super::*;

    #[test]
    fn unsupported_provider_settings_are_refused() {
        let usual = host::ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000));
        let refused = |settings| ClockBackend::Own(settings).check().err().map(|e| e.to_string());
        assert_eq!(refused(usual), None);
        let emulated = usual.changed(|new| new.tsc_mode = TscMode::Emulated);
        let trapping = usual.changed(|new| new.tsc_trapping = true);
        for settings in [emulated, trapping] {
            assert_eq!(
                refused(settings).as_deref(),
                Some("this VMM does not trap RDTSC: unset it in host::ClockSettings")
            );
        }
        let scaled = usual.changed(|new| new.tsc_scaling = Some(48));
        assert_eq!(
            refused(scaled).as_deref(),
            Some("this VMM does not scale the TSC: unset it in host::ClockSettings")
        );
    }
}
