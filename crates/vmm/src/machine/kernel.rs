//! Calls to KVM on a running machine. Its VM and vCPUs are not handed out: the
//! file descriptor of a vCPU keeps the VM alive, and a guest that outlives the
//! machine would run in memory that is no longer its own.

use host::VcpuId;
use kvm_bindings::{KVM_CAP_ADJUST_CLOCK, kvm_clock_data, kvm_regs};
use pvclock::Nanos;

use super::Machine;
use crate::error::MachineError;
use crate::{kvm, run_delay};

impl Machine {
    /// KVM's clock of the VM: KVM_GET_CLOCK.
    ///
    /// # Errors
    /// KVM's own.
    pub fn kernel_clock(&self) -> Result<kvm_clock_data, MachineError> {
        self.vm.get_clock().map_err(MachineError::kvm("KVM_GET_CLOCK"))
    }

    /// Sets it: KVM_SET_CLOCK.
    ///
    /// # Errors
    /// KVM's own.
    pub fn set_kernel_clock(&self, clock: &kvm_clock_data) -> Result<(), MachineError> {
        self.vm.set_clock(clock).map_err(MachineError::kvm("KVM_SET_CLOCK"))
    }

    /// The flags that KVM_SET_CLOCK takes: KVM_CAP_ADJUST_CLOCK.
    pub fn kernel_clock_flags(&self) -> u32 {
        self.vm.check_extension_raw(KVM_CAP_ADJUST_CLOCK.into()).cast_unsigned()
    }

    /// Adds a vCPU that never runs: that is enough for KVM to synchronise its
    /// TSC.
    ///
    /// # Errors
    /// KVM's own.
    pub fn add_idle_vcpu(&self, id: VcpuId) -> Result<(), MachineError> {
        self.vm.create_vcpu(id.0.into()).map(drop).map_err(MachineError::kvm("KVM_CREATE_VCPU"))
    }

    /// A vCPU's TSC offset as KVM has it, wrapping.
    ///
    /// # Errors
    /// KVM's own, or the thread has ended.
    pub fn tsc_offset(&self, vcpu: usize) -> Result<u64, MachineError> {
        self.on_vcpu(vcpu, |vcpu| kvm::tsc_offset(&vcpu.fd))?
    }

    /// A vCPU's registers.
    ///
    /// # Errors
    /// KVM's own, or the thread has ended.
    pub fn registers(&self, vcpu: usize) -> Result<kvm_regs, MachineError> {
        self.on_vcpu(vcpu, |vcpu| vcpu.fd.get_regs())?.map_err(MachineError::kvm("KVM_GET_REGS"))
    }

    /// How long a vCPU's thread has waited for a CPU; `None` where this kernel
    /// does not report it.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn run_delay(&self, vcpu: usize) -> Result<Option<Nanos>, MachineError> {
        self.on_vcpu(vcpu, |_| run_delay::of_this_thread())
    }
}
