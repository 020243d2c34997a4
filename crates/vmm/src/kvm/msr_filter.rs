//! The MSRs that KVM must not handle by itself.

use kvm_ioctls::{MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VmFd};

use crate::error::MachineError;
use crate::settings::{ClockBackend, Settings};
use crate::vcpu::{IA32_TSC, IA32_TSC_ADJUST};

/// For every provider: a register that the provider lacks is #GP for the guest,
/// although KVM has it. First and number.
const PARAVIRTUAL: [(u32, u32); 3] = [
    // kvm-clock's old MSRs.
    (0x11, 2),
    // KVM's.
    (0x4b56_4d00, 8),
    // Hyper-V's.
    (0x4000_0000, 0x200),
];

/// The guest's TSC: writes change our pages, reads stay in KVM. First and
/// number.
const TSC: [(u32, u32); 2] = [(IA32_TSC, 1), (IA32_TSC_ADJUST, 1)];

pub(super) fn set(vm: &VmFd, settings: &Settings) -> Result<(), MachineError> {
    // A clear bit is an access that exits to us.
    let bitmap = [0; 0x200 / 8];
    let own = matches!(settings.backend, ClockBackend::Own(_));
    let both = MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE;
    let paravirtual = PARAVIRTUAL.iter().map(|range| (range, both)).filter(|_| own);
    // The VMClock's page is ours with every backend.
    let by_tsc = own || settings.vmclock;
    let tsc = TSC.iter().map(|range| (range, MsrFilterRangeFlags::WRITE)).filter(|_| by_tsc);
    let ranges: Vec<_> = paravirtual
        .chain(tsc)
        .map(|(&(base, msr_count), flags)| MsrFilterRange {
            flags,
            base,
            msr_count,
            bitmap: &bitmap[..msr_count.div_ceil(8) as usize],
        })
        .collect();
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ranges)
        .map_err(MachineError::kvm("KVM_X86_SET_MSR_FILTER"))
}
