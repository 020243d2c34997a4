//! A vCPU's registers, saved and restored.

use kvm_bindings::{Msrs, kvm_fpu, kvm_msr_entry, kvm_regs, kvm_sregs, kvm_vcpu_events};
use kvm_ioctls::VcpuFd;

use crate::error::MachineError;
use crate::vcpu::IA32_TSC_ADJUST;

/// MSRs that KVM keeps: IA32_TSC_ADJUST, which does not change the TSC when the
/// host writes it, and the addresses of the kvm-clock and steal time pages. The
/// wall clock's is not among them: its page is written only once, and is in
/// memory. Whether the guest used the old kvm-clock MSR cannot be read: both
/// read the same, and KVM takes the choice from the guest's own writes only
/// (kvm_write_system_time, arch/x86/kvm/x86.c).
const MSRS: [u32; 3] = [IA32_TSC_ADJUST, 0x4b56_4d01, 0x4b56_4d03];

/// A vCPU between two entries, with no exit pending.
#[derive(Debug, Clone)]
pub(crate) struct VcpuState {
    general: kvm_regs,
    special: kvm_sregs,
    floating: kvm_fpu,
    events: kvm_vcpu_events,
    msrs: Vec<kvm_msr_entry>,
}

impl VcpuState {
    pub(crate) fn save(fd: &VcpuFd) -> Result<Self, MachineError> {
        let call = MachineError::kvm;
        let mut msrs = Vec::new();
        for index in MSRS {
            let entry = kvm_msr_entry { index, ..Default::default() };
            let mut one = of_entries(&[entry])?;
            // One that KVM does not have, the guest does not have either.
            if fd.get_msrs(&mut one).is_ok_and(|read| read == 1) {
                msrs.extend_from_slice(one.as_slice());
            }
        }
        Ok(Self {
            general: fd.get_regs().map_err(call("KVM_GET_REGS"))?,
            special: fd.get_sregs().map_err(call("KVM_GET_SREGS"))?,
            floating: fd.get_fpu().map_err(call("KVM_GET_FPU"))?,
            events: fd.get_vcpu_events().map_err(call("KVM_GET_VCPU_EVENTS"))?,
            msrs,
        })
    }

    pub(crate) fn restore(&self, fd: &VcpuFd) -> Result<(), MachineError> {
        let call = MachineError::kvm;
        fd.set_sregs(&self.special).map_err(call("KVM_SET_SREGS"))?;
        fd.set_regs(&self.general).map_err(call("KVM_SET_REGS"))?;
        fd.set_fpu(&self.floating).map_err(call("KVM_SET_FPU"))?;
        fd.set_vcpu_events(&self.events).map_err(call("KVM_SET_VCPU_EVENTS"))?;
        for entry in &self.msrs {
            let set = fd.set_msrs(&of_entries(&[*entry])?).map_err(call("KVM_SET_MSRS"))?;
            if set != 1 {
                return Err(MachineError::Unsupported { what: "an MSR that the saved VM had" });
            }
        }
        Ok(())
    }
}

fn of_entries(entries: &[kvm_msr_entry]) -> Result<Msrs, MachineError> {
    Msrs::from_entries(entries).map_err(|_| MachineError::Unsupported { what: "room for MSRs" })
}
