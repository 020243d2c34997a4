//! A vCPU's TSC, moved by its guest or by its host.
//!
//! Where the clock is ours, the guest's writes come to us: a page that was
//! right for the old TSC is wrong for the new one. (Intel SDM vol. 3, 19.17.3:
//! a write to either register changes both, and the TSC.)

use host::Event;
use kvm_bindings::{Msrs, kvm_msr_entry};

use super::Vcpu;
use crate::error::MachineError;
use crate::{host_clock, kvm};

/// The TSC itself.
pub(crate) const IA32_TSC: u32 = 0x10;
/// The sum of what it was moved by.
pub(crate) const IA32_TSC_ADJUST: u32 = 0x3b;

/// Which of the two is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TscWrite {
    Tsc(u64),
    Adjust(u64),
}

impl TscWrite {
    /// If the write to this register is one.
    pub(super) fn of(msr: u32, value: u64) -> Option<Self> {
        match msr {
            IA32_TSC => Some(Self::Tsc(value)),
            IA32_TSC_ADJUST => Some(Self::Adjust(value)),
            _ => None,
        }
    }
}

impl Vcpu {
    /// Moves the TSC to this offset. What comes of it is read back, for not
    /// every KVM does it; the provider is told of that, and it is given.
    pub(crate) fn set_tsc_offset(&mut self, offset: u64) -> Result<u64, MachineError> {
        // From before the TSC moves until the provider knows.
        let _out = self.shared.barrier.bring_all_out();
        self.tsc_offset = kvm::set_tsc_offset(&self.fd, offset)?;
        let event = Event::TscOffsetChanged { vcpu: self.id, tsc_offset: self.tsc_offset };
        self.shared.tell(event);
        Ok(self.tsc_offset)
    }

    /// Does what the guest's write asks for. IA32_TSC_ADJUST is KVM's to
    /// keep: it moves nothing when it is the host that writes it.
    pub(super) fn write_tsc(&mut self, write: TscWrite) -> Result<(), MachineError> {
        let adjust = self.tsc_adjust()?;
        let by = match write {
            TscWrite::Tsc(tsc) => {
                let now = host_clock::read().tsc.0.wrapping_add(self.tsc_offset);
                tsc.wrapping_sub(now)
            }
            TscWrite::Adjust(value) => value.wrapping_sub(adjust),
        };
        self.set_tsc_offset(self.tsc_offset.wrapping_add(by))?;
        let written = self.fd.set_msrs(&adjust_msr(adjust.wrapping_add(by))?);
        written.map_err(MachineError::kvm("KVM_SET_MSRS(IA32_TSC_ADJUST)"))?;
        Ok(())
    }

    fn tsc_adjust(&self) -> Result<u64, MachineError> {
        let mut msrs = adjust_msr(0)?;
        let read = self.fd.get_msrs(&mut msrs);
        read.map_err(MachineError::kvm("KVM_GET_MSRS(IA32_TSC_ADJUST)"))?;
        Ok(msrs.as_slice().first().map_or(0, |entry| entry.data))
    }
}

fn adjust_msr(data: u64) -> Result<Msrs, MachineError> {
    let entry = kvm_msr_entry { index: IA32_TSC_ADJUST, data, ..Default::default() };
    Msrs::from_entries(&[entry]).map_err(|_| MachineError::Lacks { what: "room for an MSR" })
}
