//! What KVM has of a guest, saved and restored: of each vCPU its registers, CPUID, extended
//! registers, local APIC and MSRs; of the VM its interrupt controllers and PIT.

use ::kvm::KvmVcpu as _;
use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2, kvm_debugregs, kvm_irqchip, kvm_lapic_state,
    kvm_mp_state, kvm_msr_entry, kvm_pit_state2, kvm_regs, kvm_sregs, kvm_vcpu_events, kvm_xcrs,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use super::{calls, cpuid};
use crate::error::MachineError;

/// MSRs of time, which crate `kvm` restores in their order (IA32_TSC, TSC_ADJUST, the
/// deadline, kvm-clock's and steal time's pages), or which KVM would write a page for
/// anew that is in memory already: the wall clock's. Whether the guest used the old
/// kvm-clock MSR cannot be read: both read the same, and KVM takes the choice from the
/// guest's own writes only (kvm_write_system_time, arch/x86/kvm/x86.c).
const OF_TIME: [u32; 8] = [0x10, 0x11, 0x12, 0x3b, 0x6e0, 0x4b56_4d00, 0x4b56_4d01, 0x4b56_4d03];
/// Hyper-V's: the machine does not save those of KVM, and others are not KVM's.
const HYPERV: std::ops::Range<u32> = 0x4000_0000..0x4000_0200;
/// The two PICs and the I/O APIC.
const CHIPS: u32 = 3;

/// A vCPU between two entries, with no exit pending.
#[derive(Debug, Clone)]
pub(crate) struct VcpuState {
    general: kvm_regs,
    special: kvm_sregs,
    events: kvm_vcpu_events,
    cpuid: Vec<kvm_cpuid_entry2>,
    /// XSAVE's area, by words.
    extended: Vec<u32>,
    xcrs: kvm_xcrs,
    debug: kvm_debugregs,
    /// Where it is KVM's.
    apic: Option<kvm_lapic_state>,
    run_state: kvm_mp_state,
    msrs: Vec<kvm_msr_entry>,
}

/// The MSRs that a VM of this KVM may have, but for those of time.
pub(crate) fn msrs(kvm: &Kvm) -> Result<Vec<u32>, MachineError> {
    let list = kvm.get_msr_index_list().map_err(MachineError::kvm("KVM_GET_MSR_INDEX_LIST"))?;
    let is_kept = |msr: &&u32| !OF_TIME.contains(msr) && !HYPERV.contains(msr);
    Ok(list.as_slice().iter().filter(is_kept).copied().collect())
}

impl VcpuState {
    /// The clocks are saved before: a timer that fires in between is then both armed
    /// and pending, and fires once more; the other way round it would be lost.
    pub(crate) fn save(fd: &VcpuFd, msrs: &[u32], has_apic: bool) -> Result<Self, MachineError> {
        let call = MachineError::kvm;
        let apic = has_apic.then(|| fd.get_lapic()).transpose();
        let cpuid = fd.get_cpuid2(KVM_MAX_CPUID_ENTRIES).map_err(call("KVM_GET_CPUID2"))?;
        Ok(Self {
            general: fd.get_regs().map_err(call("KVM_GET_REGS"))?,
            special: fd.get_sregs().map_err(call("KVM_GET_SREGS"))?,
            events: fd.get_vcpu_events().map_err(call("KVM_GET_VCPU_EVENTS"))?,
            cpuid: cpuid.as_slice().to_vec(),
            extended: fd.get_xsave().map_err(call("KVM_GET_XSAVE"))?.region.to_vec(),
            xcrs: fd.get_xcrs().map_err(call("KVM_GET_XCRS"))?,
            debug: fd.get_debug_regs().map_err(call("KVM_GET_DEBUGREGS"))?,
            apic: apic.map_err(call("KVM_GET_LAPIC"))?,
            run_state: fd.get_mp_state().map_err(call("KVM_GET_MP_STATE"))?,
            msrs: read_msrs(fd, msrs),
        })
    }

    /// Gives a new vCPU all of it.
    pub(crate) fn restore(&self, fd: &VcpuFd) -> Result<(), MachineError> {
        cpuid::set_entries(fd, &self.cpuid)?;
        let call = MachineError::kvm;
        fd.set_sregs(&self.special).map_err(call("KVM_SET_SREGS"))?;
        fd.set_regs(&self.general).map_err(call("KVM_SET_REGS"))?;
        fd.set_xcrs(&self.xcrs).map_err(call("KVM_SET_XCRS"))?;
        calls::set_xsave(fd, &self.extended)?;
        fd.set_debug_regs(&self.debug).map_err(call("KVM_SET_DEBUGREGS"))?;
        // After the registers, which tell where it is and in which mode; its timer's MSR
        // comes after it.
        if let Some(apic) = &self.apic {
            fd.set_lapic(apic).map_err(call("KVM_SET_LAPIC"))?;
        }
        for entry in &self.msrs {
            // Some cannot be written, and are what they were.
            if fd.msr(entry.index)? != Some(entry.data) && !fd.set_msr(entry.index, entry.data)? {
                return Err(::kvm::Error::Msr { msr: entry.index, value: entry.data }.into());
            }
        }
        fd.set_vcpu_events(&self.events).map_err(call("KVM_SET_VCPU_EVENTS"))?;
        // At last: it runs, halts, or waits to be started.
        fd.set_mp_state(self.run_state).map_err(call("KVM_SET_MP_STATE"))
    }
}

/// Those of these MSRs that this vCPU has: KVM lists some that it has not.
fn read_msrs(vcpu: &VcpuFd, indices: &[u32]) -> Vec<kvm_msr_entry> {
    let read = |&index: &u32| {
        let data = vcpu.msr(index).ok().flatten()?;
        Some(kvm_msr_entry { index, data, ..Default::default() })
    };
    indices.iter().filter_map(read).collect()
}

/// The VM's interrupt controllers and PIT.
#[derive(Debug, Clone)]
pub(crate) struct Chips {
    controllers: Vec<kvm_irqchip>,
    pit: kvm_pit_state2,
}

impl Chips {
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
