//! What is done at a vCPU's next entry.

use pvclock::Nanos;
use pvclock::kvm_clock::TimeUpdate;

use super::GuestClock;
use crate::tsc::time_at;
use crate::vcpu::Vcpu;
use crate::{ClockMemory, HostClocks, VcpuId};

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
