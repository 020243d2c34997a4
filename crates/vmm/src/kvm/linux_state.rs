//! What a Linux guest has in KVM beyond the registers of the lab's own guest: of each
//! vCPU its CPUID, extended registers, local APIC and MSRs; of the VM its interrupt
//! controllers and PIT.

use ::kvm::KvmVcpu as _;
use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2, kvm_debugregs, kvm_irqchip, kvm_lapic_state,
    kvm_mp_state, kvm_msr_entry, kvm_pit_state2, kvm_xcrs,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use serde::{Deserialize, Serialize};

use super::{calls, cpuid, read_msrs, write_msr};
use crate::error::MachineError;

/// MSRs of time, which crate `kvm` restores in their order (IA32_TSC, TSC_ADJUST, the
/// deadline, kvm-clock's and steal time's pages), or which KVM would write a page for
/// anew that is in memory already: the wall clock's.
const OF_TIME: [u32; 8] = [0x10, 0x11, 0x12, 0x3b, 0x6e0, 0x4b56_4d00, 0x4b56_4d01, 0x4b56_4d03];
/// Hyper-V's: the machine does not save those of KVM, and others are not KVM's.
const HYPERV: std::ops::Range<u32> = 0x4000_0000..0x4000_0200;
/// The two PICs and the I/O APIC.
const CHIPS: u32 = 3;

/// A vCPU of a Linux guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinuxVcpu {
    cpuid: Vec<kvm_cpuid_entry2>,
    /// XSAVE's area, by words.
    extended: Vec<u32>,
    xcrs: kvm_xcrs,
    debug: kvm_debugregs,
    apic: kvm_lapic_state,
    run_state: kvm_mp_state,
    msrs: Vec<kvm_msr_entry>,
}

/// The MSRs that a VM of this KVM may have, but for those of time.
pub(crate) fn msrs(kvm: &Kvm) -> Result<Vec<u32>, MachineError> {
    let list = kvm.get_msr_index_list().map_err(MachineError::kvm("KVM_GET_MSR_INDEX_LIST"))?;
    let is_kept = |msr: &&u32| !OF_TIME.contains(msr) && !HYPERV.contains(msr);
    Ok(list.as_slice().iter().filter(is_kept).copied().collect())
}

impl LinuxVcpu {
    /// The clocks are saved before: a timer that fires in between is then both armed
    /// and pending, and fires once more; the other way round it would be lost.
    pub(super) fn save(fd: &VcpuFd, msrs: &[u32]) -> Result<Self, MachineError> {
        let call = MachineError::kvm;
        Ok(Self {
            cpuid: cpuid_of(fd)?,
            extended: fd.get_xsave().map_err(call("KVM_GET_XSAVE"))?.region.to_vec(),
            xcrs: fd.get_xcrs().map_err(call("KVM_GET_XCRS"))?,
            debug: fd.get_debug_regs().map_err(call("KVM_GET_DEBUGREGS"))?,
            apic: fd.get_lapic().map_err(call("KVM_GET_LAPIC"))?,
            run_state: fd.get_mp_state().map_err(call("KVM_GET_MP_STATE"))?,
            msrs: read_msrs(fd, msrs),
        })
    }

    #[cfg(test)]
    pub(super) fn give_all_features(&mut self) {
        let features = self.cpuid.iter_mut().filter(|leaf| leaf.function == 1);
        features.for_each(|leaf| (leaf.ecx, leaf.edx) = (u32::MAX, u32::MAX));
    }

    /// The CPUID that the guest was given, if this host has all of it.
    pub(super) fn set_cpuid(
        &self,
        kvm: &Kvm,
        fd: &VcpuFd,
        by_provider: bool,
    ) -> Result<(), MachineError> {
        // A KVM that is software has guests see more than it says to support.
        let mut here = cpuid::supported(kvm)?;
        cpuid::set_entries(fd, &here)?;
        here.extend(cpuid_of(fd)?);
        cpuid::check(&self.cpuid, &here, by_provider)?;
        cpuid::set_entries(fd, &self.cpuid)
    }

    /// After the registers, which tell where the local APIC is and in which mode; its
    /// timer's MSR comes after it.
    pub(super) fn restore(&self, fd: &VcpuFd) -> Result<(), MachineError> {
        let call = MachineError::kvm;
        fd.set_xcrs(&self.xcrs).map_err(call("KVM_SET_XCRS"))?;
        calls::set_xsave(fd, &self.extended)?;
        fd.set_debug_regs(&self.debug).map_err(call("KVM_SET_DEBUGREGS"))?;
        fd.set_lapic(&self.apic).map_err(call("KVM_SET_LAPIC"))?;
        for entry in &self.msrs {
            // Some cannot be written, and are what they were.
            if fd.msr(entry.index)? != Some(entry.data) {
                write_msr(fd, entry)?;
            }
        }
        Ok(())
    }

    /// At last: it runs, halts, or waits to be started.
    pub(super) fn set_run_state(&self, fd: &VcpuFd) -> Result<(), MachineError> {
        fd.set_mp_state(self.run_state).map_err(MachineError::kvm("KVM_SET_MP_STATE"))
    }
}

fn cpuid_of(fd: &VcpuFd) -> Result<Vec<kvm_cpuid_entry2>, MachineError> {
    let cpuid = fd.get_cpuid2(KVM_MAX_CPUID_ENTRIES);
    Ok(cpuid.map_err(MachineError::kvm("KVM_GET_CPUID2"))?.as_slice().to_vec())
}

/// The VM's interrupt controllers and PIT.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chips {
    controllers: Vec<kvm_irqchip>,
    pit: kvm_pit_state2,
}

impl Chips {
    /// Each of the controllers, once.
    pub(crate) fn is_whole(&self) -> bool {
        self.controllers.iter().map(|chip| chip.chip_id).eq(0..CHIPS)
    }

    pub(crate) fn save(vm: &VmFd) -> Result<Self, MachineError> {
        let mut controllers = Vec::new();
        for chip_id in 0..CHIPS {
            let mut chip = kvm_irqchip { chip_id, ..Default::default() };
            vm.get_irqchip(&mut chip).map_err(MachineError::kvm("KVM_GET_IRQCHIP"))?;
            controllers.push(chip);
        }
        let pit = vm.get_pit2().map_err(MachineError::kvm("KVM_GET_PIT2"))?;
        Ok(Self { controllers, pit })
    }

    /// After the vCPUs' local APICs, to which an interrupt that is pending here is sent
    /// at once (kvm_set_ioapic, arch/x86/kvm/ioapic.c).
    pub(crate) fn restore(&self, vm: &VmFd) -> Result<(), MachineError> {
        for chip in &self.controllers {
            vm.set_irqchip(chip).map_err(MachineError::kvm("KVM_SET_IRQCHIP"))?;
        }
        vm.set_pit2(&self.pit).map_err(MachineError::kvm("KVM_SET_PIT2"))
    }
}
