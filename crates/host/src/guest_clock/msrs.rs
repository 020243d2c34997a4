//! What a vCPU's thread calls: reads and writes of MSRs, and the updates before it enters.

use pvclock::Nanos;
use pvclock::kvm_clock::TimeUpdate;

use super::GuestClock;
use crate::tsc::time_at;
use crate::vcpu::Vcpu;
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

impl GuestClock {
    /// Writes the due updates of this vCPU's pages. The VMM calls it each time
    /// before the vCPU enters the guest; with nothing due it only checks that.
    #[inline]
    pub fn before_entry(&mut self, vcpu: VcpuId, now: HostClocks, memory: &impl ClockMemory) {
        self.latest = now;
        if self.vcpus.get(&vcpu).is_some_and(|vcpu| !vcpu.due.is_nothing()) {
            self.write_due(vcpu, now, memory);
            self.raise_flags();
        }
    }

    fn write_due(&mut self, id: VcpuId, now: HostClocks, memory: &impl ClockMemory) {
        let Some(vcpu) = self.vcpus.get(&id) else { return };
        let snapshot = match self.master {
            Ok(snapshot) => snapshot,
            Err(_) => self.own_snapshot(vcpu, now),
        };
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return };
        let reference = core::mem::take(&mut vcpu.due.reference);
        if vcpu.due.time {
            vcpu.write_time(snapshot, memory);
        }
        if vcpu.due.steal {
            vcpu.write_steal(memory);
        }
        if reference {
            // The first vCPU that enters after a restore writes it for all.
            self.vcpus.values_mut().for_each(|vcpu| vcpu.due.reference = false);
            self.publish_restored_reference(memory);
        }
    }

    /// A snapshot of the vCPU's own, not behind its current one.
    fn own_snapshot(&self, vcpu: &Vcpu, now: HostClocks) -> TimeUpdate {
        let base = vcpu.source.base(now);
        let floor = vcpu.snapshot.as_ref().map_or(Nanos(0), |current| time_at(current, base));
        self.take_snapshot(vcpu.source, now, floor, false)
    }
}
