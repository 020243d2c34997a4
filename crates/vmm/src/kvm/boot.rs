//! The state a vCPU starts in: 64-bit mode, CPL 0, at the guest's entry.
//!
//! There is no real mode and no boot loader: 16- and 32-bit code is emulated
//! where KVM is software itself.

use guest::layout;
use host::VcpuId;
use kvm_bindings::{kvm_regs, kvm_segment};
use kvm_ioctls::VcpuFd;

use crate::error::MachineError;
use crate::memory::GuestRam;

/// PE, MP, ET, NE, PG.
const CR0: u64 = 0x8000_0033;
/// PAE, OSFXSR, OSXMMEXCPT.
const CR4: u64 = 0x620;
/// SCE, LME, LMA.
const EFER: u64 = 0x501;
/// IA32_APIC_BASE: enabled, in x2APIC mode.
const X2APIC: u64 = 0xc00;
/// Present, writable, large page.
const LARGE_PAGE: u64 = 0x83;
const PRESENT: u64 = 3;

/// Identity-mapping tables for the first GiB; the guest soon installs its own.
pub(crate) fn write_tables(ram: &GuestRam) -> Result<(), MachineError> {
    let [first, second, third] = [0, 0x1000, 0x2000].map(|at| layout::START_TABLES + at);
    ram.write(first, &(second | PRESENT).to_le_bytes())?;
    ram.write(second, &(third | PRESENT).to_le_bytes())?;
    let pages: Vec<u8> =
        (0..512u64).flat_map(|page| (page << 21 | LARGE_PAGE).to_le_bytes()).collect();
    ram.write(third, &pages)
}

/// Where a vCPU starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryPoint {
    pub(crate) rip: u64,
    /// What the guest finds in RSI: the lab's its magic number, Linux its zero page.
    pub(crate) rsi: u64,
}

/// At the guest's entry.
pub(crate) fn set_entry(
    fd: &VcpuFd,
    vcpu: VcpuId,
    entry: EntryPoint,
    x2apic: bool,
) -> Result<(), MachineError> {
    let mut special = fd.get_sregs().map_err(MachineError::kvm("KVM_GET_SREGS"))?;
    special.cr0 = CR0;
    special.cr3 = layout::START_TABLES;
    special.cr4 = CR4;
    special.efer = EFER;
    if x2apic {
        special.apic_base |= X2APIC;
    }
    // The selectors are the guest's own, so that it need not reload CS.
    let code = kvm_segment {
        selector: 0x10,
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        limit: u32::MAX,
        ..Default::default()
    };
    let data = kvm_segment { selector: 0x18, type_: 3, l: 0, db: 1, ..code };
    special.cs = code;
    (special.ds, special.es, special.ss) = (data, data, data);
    fd.set_sregs(&special).map_err(MachineError::kvm("KVM_SET_SREGS"))?;
    let registers = kvm_regs {
        rip: entry.rip,
        rdi: vcpu.0.into(),
        rsi: entry.rsi,
        // Bit 1 is always set.
        rflags: 2,
        ..Default::default()
    };
    fd.set_regs(&registers).map_err(MachineError::kvm("KVM_SET_REGS"))
}
