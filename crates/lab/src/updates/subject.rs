//! A machine whose pages are compared before and after events.

use facts::kernel::version::KernelVersion;
use pvclock::Nanos;
use pvclock::kvm_clock::TimeInfo;
use vmm::Machine;

use crate::bench::{LabBench, Provider, boot_guest};
use crate::pages::time_info;
use crate::settings::LabError;
use crate::tsc_offsets::why_per_vcpu;

/// The period of kernels before 6.19 (KVMCLOCK_SYNC_PERIOD).
const SYNC_PERIOD: Nanos = Nanos(300_000_000_000);

/// A machine and its pages.
pub(super) struct UpdateSubject {
    pub(super) machine: Machine,
    pub(super) provider: Provider,
    /// Physical CPUs we may use.
    pub(super) cpus: Vec<u32>,
    /// Whether this host makes a master clock at all.
    pub(super) has_master_clock: bool,
    /// Whose KVM it is.
    pub(super) kernel: Option<KernelVersion>,
    /// An event has set GUEST_STOPPED, and no guest has taken it.
    pub(super) stopped: bool,
}

impl UpdateSubject {
    pub(super) fn start(bench: &LabBench<'_>, provider: Provider) -> Result<Self, LabError> {
        let cpus = linux::cpus::allowed().unwrap_or_default();
        let mut settings = bench.machine(provider, bench.settings.vcpus);
        settings.affinity.clone_from(&cpus);
        if let vmm::ClockBackend::Own(provider) = &mut settings.backend {
            provider.sync_period = Some(SYNC_PERIOD);
        }
        let machine = boot_guest(&settings)?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = KernelVersion::parse(&release);
        let (has_master_clock, stopped) = (false, false);
        let mut subject = Self { machine, provider, cpus, has_master_clock, kernel, stopped };
        crate::pages::reenter_all(&subject.machine)?;
        subject.has_master_clock = if provider.is_own() {
            why_per_vcpu(&subject.machine)?.is_none()
        } else {
            subject.is_stable()?
        };
        Ok(subject)
    }

    pub(super) fn infos(&self) -> Result<Vec<TimeInfo>, LabError> {
        (0..self.machine.vcpus()).map(|vcpu| time_info(self.machine.ram(), vcpu)).collect()
    }
}
