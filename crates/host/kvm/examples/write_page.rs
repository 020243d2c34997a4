//! A VMM that writes its guest's kvm-clock page itself: CPUID, the MSR filter, the run loop.
//!
//! # Invariants
//! 1. The guest's memory is mapped for as long as its VM exists.
#![allow(unsafe_code)]

use std::error::Error;

use kvm_bindings::{
    CpuId, KVM_CAP_X86_USER_SPACE_MSR, KVM_MAX_CPUID_ENTRIES, KVM_MSR_EXIT_REASON_FILTER,
    kvm_cpuid_entry2, kvm_enable_cap, kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VcpuExit};
use pvclock::kvm_clock::{LastTime, TimeReader};
use pvclock_host::pages::TimePage;
use pvclock_host::{
    ClockAddress, ClockMemory as _, ClockProvider, ClockSettings, GuestClock, HostEvent, VcpuId,
};
use pvclock_kvm::{HostCapabilities, KvmVcpu as _, MappedMemory, host_clock};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

/// The guest, in real mode: wrmsr(0x4b564d01, 0x2001), then hlt.
const GUEST: [u8; 21] = [
    0x66, 0xb8, 0x01, 0x20, 0, 0, 0x66, 0xba, 0, 0, 0, 0, //
    0x66, 0xb9, 0x01, 0x4d, 0x56, 0x4b, 0x0f, 0x30, 0xf4,
];

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // What every VMM has: memory, a VM, a vCPU at the guest's first instruction.
    let kvm = Kvm::new()?;
    let host = HostCapabilities::query(&kvm)?;
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1_0000)])?;
    let vm = kvm.create_vm()?;
    memory.write_slice(&GUEST, GuestAddress(0x1000))?;
    let userspace_addr = memory.get_host_address(GuestAddress(0))? as u64;
    let slot =
        kvm_userspace_memory_region { memory_size: 0x1_0000, userspace_addr, ..Default::default() };
    // SAFETY: invariant 1: `memory` is dropped after `vm`.
    unsafe { vm.set_user_memory_region(slot)? };
    let mut vcpu = vm.create_vcpu(0)?;
    let mut segments = vcpu.get_sregs()?;
    (segments.cs.base, segments.cs.selector) = (0, 0);
    vcpu.set_sregs(&segments)?;
    let mut registers = vcpu.get_regs()?;
    (registers.rip, registers.rflags) = (0x1000, 2);
    vcpu.set_regs(&registers)?;

    // The clock, and what it needs to know of the vCPU.
    let (pages, id) = (MappedMemory(&memory), VcpuId(0));
    let settings = ClockSettings::new(ClockProvider::Kvm, host.tsc.frequency);
    let mut clock = GuestClock::new(settings, host_clock::read())?;
    let tsc_offset = vcpu.tsc_offset()?;
    clock.handle(HostEvent::VcpuCreated { vcpu: id, tsc_offset }, host_clock::read(), &pages);
    let due = clock.due_flag(id).ok_or("no such vCPU")?;

    // The guest finds the clock by CPUID.
    let mut leaves = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?.as_slice().to_vec();
    leaves.retain(|leaf| leaf.function >> 16 != 0x4000);
    leaves.iter_mut().filter(|leaf| leaf.function == 1).for_each(|leaf| leaf.ecx |= 1 << 31);
    leaves.extend(clock.cpuid_leaves().map(|(function, leaf)| kvm_cpuid_entry2 {
        function,
        eax: leaf.eax,
        ebx: leaf.ebx,
        ecx: leaf.ecx,
        edx: leaf.edx,
        ..Default::default()
    }));
    vcpu.set_cpuid2(&CpuId::from_entries(&leaves)?)?;

    // Its MSRs exit to this program: a clear bit of the bitmap is one that KVM does not handle.
    let args = [KVM_MSR_EXIT_REASON_FILTER.into(), 0, 0, 0];
    vm.enable_cap(&kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, args, ..Default::default() })?;
    let (flags, bitmap) = (MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE, [0; 4]);
    let ranges = clock.msrs().iter().map(|range| MsrFilterRange {
        flags,
        base: range.first,
        msr_count: range.count,
        bitmap: &bitmap[..range.count.div_ceil(8) as usize],
    });
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ranges.collect::<Vec<_>>())?;

    // The run loop: whatever is due is written before the vCPU enters the guest.
    loop {
        if due.is_due() {
            clock.before_entry(id, host_clock::read(), &pages);
        }
        match vcpu.run()? {
            VcpuExit::X86Wrmsr(exit) => {
                let written =
                    clock.write_msr(id, exit.index, exit.data, host_clock::read(), &pages);
                *exit.error = written.is_err().into(); // 1 is #GP in the guest
            }
            VcpuExit::X86Rdmsr(exit) => {
                match clock.read_msr(id, exit.index, host_clock::read(), &pages) {
                    Ok(value) => *exit.data = value,
                    Err(_) => *exit.error = 1,
                }
            }
            VcpuExit::Hlt => break,
            other => return Err(format!("{other:?}").into()),
        }
    }

    // What the guest reads there.
    let page = pages.page::<TimePage>(ClockAddress(0x2000))?;
    let guest_tsc = || host_clock::read().tsc.0.wrapping_add(tsc_offset);
    let now = TimeReader::new(page).nanos_monotonic(&guest_tsc, &LastTime::default())?;
    let age = clock.time(id, host_clock::read());
    println!("the guest's clock is at {now}, {} ns before its host's", age.0 - now.0);
    Ok(())
}
