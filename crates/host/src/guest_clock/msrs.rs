//! HostClocks and writing MSRs.

use super::GuestClock;
use crate::{ClockMemory, ClockProvider, HostClocks, MsrError, VcpuId};

impl GuestClock {
    /// Handles RDMSR.
    ///
    /// # Errors
    /// [`MsrError`]: #GP for the guest, or an MSR that the VMM handles.
    pub fn read_msr(
        &mut self,
        vcpu: VcpuId,
        msr: u32,
        now: HostClocks,
        _memory: &impl ClockMemory,
    ) -> Result<u64, MsrError> {
        self.must_be_ours(vcpu, msr)?;
        self.latest = now;
        match self.settings.kind {
            ClockProvider::HyperV => self.read_hyperv_msr(vcpu, msr, now),
            _ => self.read_kvm_msr(vcpu, msr),
        }
    }

    /// Handles WRMSR. An error changes nothing.
    ///
    /// No vCPU runs guest code while it does, and each gets its
    /// [`before_entry`](GuestClock::before_entry) before it runs again, as at an
    /// event with [`HostEvent::stops_all`](crate::HostEvent::stops_all): a write of the
    /// boot vCPU can end or begin the common snapshot of all vCPUs
    /// (KVM_SYSTEM_TIME_OLD), and Hyper-V's page is one for all.
    ///
    /// # Errors
    /// [`MsrError`]: #GP for the guest, or an MSR that the VMM handles.
    pub fn write_msr(
        &mut self,
        vcpu: VcpuId,
        msr: u32,
        value: u64,
        now: HostClocks,
        memory: &impl ClockMemory,
    ) -> Result<(), MsrError> {
        self.must_be_ours(vcpu, msr)?;
        self.latest = now;
        let written = match self.settings.kind {
            ClockProvider::HyperV => self.write_hyperv_msr(msr, value, now, memory),
            _ => self.write_kvm_msr(vcpu, msr, value, now, memory),
        };
        self.raise_flags();
        written
    }

    fn must_be_ours(&self, vcpu: VcpuId, msr: u32) -> Result<(), MsrError> {
        if !self.msrs().iter().any(|range| range.contains(msr)) {
            return Err(MsrError::NotOurs { msr, kind: self.settings.kind });
        }
        if !self.vcpus.contains_key(&vcpu) {
            return Err(MsrError::NoSuchVcpu { msr, vcpu });
        }
        Ok(())
    }
}
