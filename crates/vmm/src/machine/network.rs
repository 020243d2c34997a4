//! A machine's network card.

use std::sync::Arc;
use std::time::Duration;

use guest::layout::{NETWORK_MEMORY, NETWORK_VECTOR, VAPIC_POLL_IRQ};
use kvm_bindings::{
    KVM_CAP_HALT_POLL, KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_enable_cap, kvm_irq_routing_entry,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use vm_memory::{GuestMemoryBackend as _, GuestMemoryRegion as _, MemoryRegionAddress};

use super::Machine;
use crate::error::MachineError;
use crate::kvm;
use crate::network::{NOTIFY, NetworkCounts, NetworkLink, NetworkThread};
use crate::settings::Settings;

/// The line whose message it is, beyond those of the I/O interrupt controller.
const LINE: u32 = 24;

/// A message to the local APIC of number 0 (Intel SDM volume 3, 12.11).
const MESSAGE: u32 = 0xfee0_0000;

/// A card, its memory and its lines to the guest.
pub(super) fn add(vm: &VmFd, delay: Duration) -> Result<Arc<NetworkLink>, MachineError> {
    let link = Arc::new(NetworkLink::new(delay)?);
    for region in link.memory().iter() {
        let at = region.get_host_address(MemoryRegionAddress(0)).map_or(0, |at| at as u64);
        let region = kvm_userspace_memory_region {
            slot: 1,
            flags: 0,
            guest_phys_addr: NETWORK_MEMORY,
            memory_size: region.len(),
            userspace_addr: at,
        };
        kvm::set_memory(vm, &link, region)?;
    }
    for (event, at) in [
        (&link.notified, IoEventAddress::Mmio(NOTIFY)),
        (&link.left, IoEventAddress::Pio(VAPIC_POLL_IRQ.into())),
    ] {
        vm.register_ioevent(event, &at, NoDatamatch).map_err(MachineError::kvm("KVM_IOEVENTFD"))?;
    }
    let mut entry =
        kvm_irq_routing_entry { gsi: LINE, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
    entry.u.msi.address_lo = MESSAGE;
    entry.u.msi.data = NETWORK_VECTOR.into();
    let routing = KvmIrqRouting::from_entries(&[entry])
        .map_err(|_| MachineError::Unsupported { what: "room for a route" })?;
    vm.set_gsi_routing(&routing).map_err(MachineError::kvm("KVM_SET_GSI_ROUTING"))?;
    vm.register_irqfd(&link.interrupt, LINE).map_err(MachineError::kvm("KVM_IRQFD"))?;
    Ok(link)
}

/// Its thread, on the CPU after the vCPUs'.
pub(super) fn start(
    link: &Arc<NetworkLink>,
    settings: &Settings,
) -> Result<NetworkThread, MachineError> {
    let cpus = &settings.affinity;
    let cpu = (!cpus.is_empty()).then(|| cpus[settings.vcpus % cpus.len()]);
    NetworkThread::start(link, cpu)
}

impl Machine {
    /// What the network card has done so far; `None` where there is none.
    pub fn network(&self) -> Option<NetworkCounts> {
        self.shared.network.as_ref().map(|link| link.counts())
    }

    /// Whether the card looks at the guest's ring all the time, and asks for no
    /// notifications.
    pub fn poll_network(&self, polls: bool) {
        if let Some(link) = &self.shared.network {
            link.set_polling(polls);
        }
    }

    /// How long KVM looks for an interrupt of a vCPU that halts before its thread sleeps,
    /// at the most: ns.
    ///
    /// # Errors
    /// KVM's own: Linux before 5.11 has no such limit for each machine.
    pub fn set_halt_polling(&self, ns: u64) -> Result<(), MachineError> {
        let mut capability = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..Default::default() };
        capability.args[0] = ns;
        self.vm.enable_cap(&capability).map_err(MachineError::kvm("KVM_CAP_HALT_POLL"))
    }
}
