//! A vCPU's TSC, set by its guest or by its host.
//!
//! Where the clock is ours, the guest's writes exit to us: a page that is right
//! for the old TSC is wrong for the new one. (Intel SDM vol. 3, 19.17.3: a write
//! to either register changes both, and the TSC.)

use ::kvm::KvmVcpu as _;
use host::HostEvent;

use super::RunningVcpu;
use crate::error::MachineError;
use crate::{host_clock, kvm};

/// The TSC itself.
pub(crate) const IA32_TSC: u32 = 0x10;
/// The sum of all changes to it.
pub(crate) const IA32_TSC_ADJUST: u32 = 0x3b;
/// When the local APIC's timer fires.
pub(crate) const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// Which of the two is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TscWrite {
    Tsc(u64),
    Adjust(u64),
}

impl TscWrite {
    /// The write, if the register is one of the two.
    pub(super) fn from_msr(msr: u32, value: u64) -> Option<Self> {
        match msr {
            IA32_TSC => Some(Self::Tsc(value)),
            IA32_TSC_ADJUST => Some(Self::Adjust(value)),
            _ => None,
        }
    }
}

impl RunningVcpu {
    /// Sets the TSC offset, passes the one that KVM has then to the provider,
    /// and returns it: not every KVM takes one.
    pub(crate) fn set_tsc_offset(&mut self, offset: u64) -> Result<u64, MachineError> {
        // From before the TSC moves until the provider knows.
        let _out = self.shared.vcpus.bring_all_out();
        self.tsc_offset = kvm::set_tsc_offset(&self.fd, offset)?;
        let event = HostEvent::TscOffsetChanged { vcpu: self.id, tsc_offset: self.tsc_offset };
        self.shared.notify(event);
        self.shared.with_vmclock(|vmclock, ram| vmclock.tsc_set(self.id, self.tsc_offset, ram));
        Ok(self.tsc_offset)
    }

    /// Executes the guest's write. KVM keeps IA32_TSC_ADJUST: a write of it by
    /// the host does not change the TSC. A TSC that KVM leaves as it was, as
    /// software KVMs do, changes nothing in it.
    pub(super) fn write_tsc(&mut self, write: TscWrite) -> Result<(), MachineError> {
        let adjust = self.fd.msr(IA32_TSC_ADJUST)?.unwrap_or(0);
        let before = self.tsc_offset;
        let adjusted = match write {
            TscWrite::Tsc(tsc) => {
                let now = host_clock::read().tsc.0.wrapping_add(before);
                let set = self.set_tsc_offset(before.wrapping_add(tsc.wrapping_sub(now)))?;
                adjust.wrapping_add(set.wrapping_sub(before))
            }
            TscWrite::Adjust(value) => {
                self.set_tsc_offset(before.wrapping_add(value.wrapping_sub(adjust)))?;
                value
            }
        };
        self.fd.set_msr(IA32_TSC_ADJUST, adjusted)?;
        Ok(())
    }
}
