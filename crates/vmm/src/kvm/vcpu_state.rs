//! A vCPU's registers, saved and restored.

use kvm_bindings::{kvm_fpu, kvm_msr_entry, kvm_regs, kvm_sregs, kvm_vcpu_events};
use kvm_ioctls::{Kvm, VcpuFd};
use serde::{Deserialize, Serialize};

use super::linux_state::LinuxVcpu;
use super::{read_msrs, write_msr};
use crate::error::MachineError;
use crate::vcpu::IA32_TSC_ADJUST;

/// MSRs that KVM keeps of the lab's own guest: IA32_TSC_ADJUST, which does not change
/// the TSC when the host writes it, and the addresses of the kvm-clock and steal time
/// pages. The wall clock's is not among them: its page is written only once, and is in
/// memory. Whether the guest used the old kvm-clock MSR cannot be read: both
/// read the same, and KVM takes the choice from the guest's own writes only
/// (kvm_write_system_time, arch/x86/kvm/x86.c).
const MSRS: [u32; 3] = [IA32_TSC_ADJUST, 0x4b56_4d01, 0x4b56_4d03];

/// A vCPU between two entries, with no exit pending.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VcpuState {
    general: kvm_regs,
    special: kvm_sregs,
    events: kvm_vcpu_events,
    /// Of the lab's own guest.
    #[serde(skip)]
    own: Option<(kvm_fpu, Vec<kvm_msr_entry>)>,
    /// Of a Linux guest.
    linux: Option<Box<LinuxVcpu>>,
}

impl VcpuState {
    /// `linux` are the MSRs of a Linux guest.
    pub(crate) fn save(fd: &VcpuFd, linux: Option<&[u32]>) -> Result<Self, MachineError> {
        let call = MachineError::kvm;
        Ok(Self {
            general: fd.get_regs().map_err(call("KVM_GET_REGS"))?,
            special: fd.get_sregs().map_err(call("KVM_GET_SREGS"))?,
            events: fd.get_vcpu_events().map_err(call("KVM_GET_VCPU_EVENTS"))?,
            own: if linux.is_none() { Some(save_own(fd)?) } else { None },
            linux: linux.map(|msrs| LinuxVcpu::save(fd, msrs)).transpose()?.map(Box::new),
        })
    }

    pub(crate) fn is_linux(&self) -> bool {
        self.linux.is_some()
    }

    #[cfg(test)]
    pub(crate) fn give_all_features(&mut self) {
        self.linux.iter_mut().for_each(|linux| linux.give_all_features());
    }

    /// Gives a new vCPU the CPUID of a Linux guest; `false` where it is the lab's own.
    pub(super) fn set_cpuid(
        &self,
        kvm: &Kvm,
        fd: &VcpuFd,
        by_provider: bool,
    ) -> Result<bool, MachineError> {
        let Some(linux) = &self.linux else { return Ok(false) };
        linux.set_cpuid(kvm, fd, by_provider).map(|()| true)
    }

    pub(crate) fn restore(&self, fd: &VcpuFd) -> Result<(), MachineError> {
        let call = MachineError::kvm;
        fd.set_sregs(&self.special).map_err(call("KVM_SET_SREGS"))?;
        fd.set_regs(&self.general).map_err(call("KVM_SET_REGS"))?;
        if let Some(linux) = &self.linux {
            linux.restore(fd)?;
        }
        if let Some((floating, _)) = &self.own {
            fd.set_fpu(floating).map_err(call("KVM_SET_FPU"))?;
        }
        fd.set_vcpu_events(&self.events).map_err(call("KVM_SET_VCPU_EVENTS"))?;
        for entry in self.own.iter().flat_map(|(_, msrs)| msrs) {
            write_msr(fd, entry)?;
        }
        self.linux.as_ref().map_or(Ok(()), |linux| linux.set_run_state(fd))
    }
}

fn save_own(fd: &VcpuFd) -> Result<(kvm_fpu, Vec<kvm_msr_entry>), MachineError> {
    Ok((fd.get_fpu().map_err(MachineError::kvm("KVM_GET_FPU"))?, read_msrs(fd, &MSRS)))
}
