//! What is done at a vCPU's next entry.

use pvclock::Nanos;
use pvclock::kvm_clock::TimeUpdate;

use super::GuestClock;
use crate::tsc::along;
use crate::{GuestMemory, Reading, VcpuId};

impl GuestClock {
    /// Writes what is due on this vCPU's pages. The VMM calls it each time
    /// before the vCPU enters the guest; with nothing due it costs a look.
    #[inline]
    pub fn before_entry(&mut self, vcpu: VcpuId, now: Reading, memory: &impl GuestMemory) {
        self.latest = now;
        if self.vcpus.get(&vcpu).is_some_and(|vcpu| !vcpu.due.is_nothing()) {
            self.write_due(vcpu, now, memory);
        }
    }

    fn write_due(&mut self, id: VcpuId, now: Reading, memory: &impl GuestMemory) {
        let Some(vcpu) = self.vcpus.get(&id) else { return };
        let line = match self.master {
            Ok(line) => line,
            Err(_) => self.own_line(vcpu.line.as_ref(), now),
        };
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return };
        let reference = core::mem::take(&mut vcpu.due.reference);
        if vcpu.due.time {
            vcpu.write_time(line, memory);
        }
        if vcpu.due.steal {
            vcpu.write_steal(memory);
        }
        if reference {
            // The first vCPU that enters after a restore has it written for all.
            self.vcpus.values_mut().for_each(|vcpu| vcpu.due.reference = false);
            self.publish_reference(memory);
        }
    }

    /// A line of the vCPU's own, not behind the one it is on.
    fn own_line(&self, current: Option<&TimeUpdate>, now: Reading) -> TimeUpdate {
        let told = current.map_or(Nanos(0), |line| along(line, self.source.base(now)));
        self.draw(now, told, false)
    }
}
