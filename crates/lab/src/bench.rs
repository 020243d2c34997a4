//! The machines that experiments run on.

use std::time::Duration;

use guest::request::GuestRequest;
use guest::source::Source;
use host::ClockProvider;
use pvclock::Hertz;
use vmm::{Machine, MachineError};

use crate::settings::{LabError, Settings};

/// What a table's first column means.
pub(crate) const CLOCK_BY: &str =
    "Clock by: kernel is KVM's kvm-clock; the others are Parachron's providers.";

/// Settings, and the host they apply to.
#[derive(Debug, Clone)]
pub(crate) struct LabBench<'a> {
    pub(crate) settings: &'a Settings,
    /// The true rate of this host's TSC.
    pub(crate) host_tsc: Hertz,
}

/// Who makes the clock of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// The kernel's KVM.
    Kernel,
    /// The kernel's KVM, with Hyper-V's clock.
    KernelHyperV,
    /// Our provider of this kind.
    Own(ClockProvider),
}

impl Provider {
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// How checks name it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelHyperV => "kernel's Hyper-V",
            Self::Own(kind) => kind.name(),
        }
    }

    /// The interface that its guest finds.
    pub(crate) fn kind(self) -> ClockProvider {
        match self {
            Self::Kernel => ClockProvider::Kvm,
            Self::KernelHyperV => ClockProvider::HyperV,
            Self::Own(kind) => kind,
        }
    }
}

impl LabBench<'_> {
    /// The provider's settings, with the advertised TSC frequency.
    pub(crate) fn host_settings(&self, kind: ClockProvider) -> host::ClockSettings {
        let settings = host::ClockSettings::new(kind, self.host_tsc);
        let advertised = self.settings.advertised(self.host_tsc);
        if advertised == self.host_tsc { settings } else { settings.advertise(advertised) }
    }

    /// The advertised TSC frequency over the true one: the kernel advertises the
    /// true one.
    pub(crate) fn advertised_over_true(&self, provider: Provider) -> f64 {
        match provider {
            Provider::Kernel | Provider::KernelHyperV => 1.0,
            Provider::Own(_) => {
                self.settings.advertised(self.host_tsc).0 as f64 / self.host_tsc.0 as f64
            }
        }
    }

    /// The machine's settings.
    pub(crate) fn machine(&self, provider: Provider, vcpus: usize) -> vmm::Settings {
        let backend = match provider {
            Provider::Kernel => vmm::ClockBackend::Kernel,
            Provider::KernelHyperV => vmm::ClockBackend::KernelHyperV,
            Provider::Own(kind) => vmm::ClockBackend::Own(
                self.host_settings(kind)
                    .changed(|new| new.tsc_invariant = vmm::kvm::tsc_is_invariant()),
            ),
        };
        vmm::Settings { vcpus, timeout: self.settings.timeout, ..vmm::Settings::new(backend) }
    }

    /// A running machine.
    pub(crate) fn start(&self, provider: Provider, vcpus: usize) -> Result<Machine, MachineError> {
        Machine::start(&self.machine(provider, vcpus))
    }
}

/// A running machine; its guest has registered the pages of all vCPUs.
pub(crate) fn boot_guest(settings: &vmm::Settings) -> Result<Machine, MachineError> {
    let machine = Machine::start(settings)?;
    for vcpu in 0..machine.vcpus() {
        machine.discover(vcpu)?;
    }
    Ok(machine)
}

/// From the start of one machine, with our kvm-clock, to the first report of
/// its guest.
pub(crate) fn boot(settings: &Settings) -> Result<Duration, LabError> {
    let bench = LabBench { settings, host_tsc: vmm::kvm::host_tsc()? };
    let machine = bench.start(Provider::Own(ClockProvider::Kvm), settings.vcpus)?;
    machine.discover(0)?;
    Ok(machine.started().elapsed())
}

/// The median cost of an exit, by a device that answers at once.
pub(crate) fn exit_ns(machine: &Machine, tsc: Hertz) -> Result<f64, LabError> {
    let (source, reads, rounds) = (Source::AcpiPm, 5, 20);
    machine.request(0, GuestRequest::Cost { source, reads, rounds })?;
    let cycles = machine.records(0)?.into_iter().map(|[_, _, cycles, ..]| cycles as f64);
    Ok(median(cycles.collect()) / reads as f64 * 1e9 / tsc.0 as f64)
}

/// The upper of the two in the middle; 0 of none. What is no number is above all.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
