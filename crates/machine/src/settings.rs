//! What a machine is made from.

use std::time::Duration;

use guest::layout;
use pvclock::Hertz;

use crate::devices::Present;

/// Who makes the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// KVM's own kvm-clock, in the kernel.
    Kernel,
    /// KVM's own Hyper-V clock, in the kernel.
    KernelHyperV,
    /// Our provider: KVM hands us the MSRs, and we write the pages.
    Own(provider::Settings),
}

/// What a machine is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many vCPUs.
    pub vcpus: usize,
    /// Guest memory, in bytes.
    pub memory: u64,
    /// Who makes the clock.
    pub backend: Backend,
    /// Which devices.
    pub devices: Present,
    /// Physical CPUs to run the vCPUs on, in order and round again; empty
    /// lets the scheduler choose.
    pub affinity: Vec<u32>,
    /// How long an answer is waited for.
    pub patience: Duration,
}

impl Settings {
    /// One vCPU, all devices.
    pub fn new(backend: Backend) -> Self {
        Self {
            vcpus: 1,
            memory: layout::MEMORY_MIN,
            backend,
            devices: Present::ALL,
            affinity: Vec::new(),
            patience: Duration::from_secs(10),
        }
    }

    /// The rate the guest's APIC timer is told to have.
    pub(crate) fn apic(&self) -> Hertz {
        match &self.backend {
            Backend::Own(settings) => settings.apic,
            // APIC_BUS_CYCLE_NS is 1 (arch/x86/kvm/lapic.h).
            Backend::Kernel | Backend::KernelHyperV => Hertz(1_000_000_000),
        }
    }
}
