//! A whole VMM that implements its guest's kvm-clock: KVM exits to it on the
//! clock's MSRs, and crate `host` writes the page.
//!
//! `cargo run -p parachron-vmm --example small_vmm`
//!
//! # Invariants
//! 1. The mapping is made before the VM and dropped after it, and vm-memory
//!    has checked that each slice lies inside.
//! 2. Clock pages are accessed by atomic words only.
#![allow(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use host::pages::TimePage;
use host::{Event, GuestAddress, GuestClock, GuestMemory, Kind, Misplaced, Settings, VcpuId};
use kvm_bindings::{
    KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER, kvm_enable_cap,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{
    Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VcpuExit, VcpuFd, VmFd,
};
use pvclock::counter::Tsc;
use pvclock::kvm_clock::TimeReader;
use pvclock::shared::{Page, page_at};
use vm_memory::{Bytes as _, GuestMemoryBackend as _, GuestMemoryMmap};
use vmm::{host_clock, kvm};

const SIZE: usize = 0x10_0000;
const BOOT: VcpuId = VcpuId(0);
/// The address of the guest's page.
const PAGE: GuestAddress = GuestAddress(0x9000);
/// The guest's code, in 16-bit real mode: WRMSR(0x4b564d01, 0x9001), then port
/// writes in a loop.
const GUEST: [u8; 20] = [
    0x66, 0xb9, 0x01, 0x4d, 0x56, 0x4b, // mov ecx, 0x4b564d01
    0x66, 0xb8, 0x01, 0x90, 0x00, 0x00, // mov eax, 0x9001
    0x66, 0x31, 0xd2, // xor edx, edx
    0x0f, 0x30, // wrmsr
    0xee, // again: out dx, al
    0xeb, 0xfd, // jmp again
];
const START: u64 = 0x1000;

/// The guest's memory, as crate `host` accesses it.
struct Memory(GuestMemoryMmap);

impl GuestMemory for Memory {
    fn page<P: Page>(&self, address: GuestAddress) -> Result<&P, Misplaced> {
        let (address, length) = (address.0, size_of::<P>());
        let slice = self
            .0
            .get_slice(vm_memory::GuestAddress(address), length)
            .map_err(|_| Misplaced::Outside { address, length })?;
        // SAFETY: invariants 1 and 2.
        unsafe { page_at(slice.ptr_guard_mut().as_ptr()) }
            .map_err(|_| Misplaced::Unaligned { address, alignment: align_of::<P>() })
    }
}

/// A VM with this memory that exits to us on the clock's MSRs.
fn create(kvm: &Kvm, memory: &Memory, host: &GuestClock) -> Result<VmFd, Box<dyn Error>> {
    let vm = kvm.create_vm()?;
    let at = memory.0.get_host_address(vm_memory::GuestAddress(0))?;
    let region = kvm_userspace_memory_region {
        memory_size: SIZE as u64,
        userspace_addr: at as u64,
        ..Default::default()
    };
    // SAFETY: invariant 1.
    unsafe { vm.set_user_memory_region(region)? };
    let mut capability = kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, ..Default::default() };
    capability.args[0] = KVM_MSR_EXIT_REASON_FILTER.into();
    vm.enable_cap(&capability)?;
    // A bit that is not set makes the access exit to us.
    let nothing_allowed = [0; 16];
    let ranges: Vec<_> = host
        .msrs()
        .iter()
        .map(|range| MsrFilterRange {
            flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
            base: range.first,
            msr_count: range.count,
            bitmap: &nothing_allowed[..range.count.div_ceil(8) as usize],
        })
        .collect();
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ranges)?;
    Ok(vm)
}

/// A vCPU in real mode at `START`. A guest that uses CPUID would also need
/// `host.cpuid_leaves()`.
fn boot(vm: &VmFd) -> Result<VcpuFd, Box<dyn Error>> {
    let vcpu = vm.create_vcpu(0)?;
    let mut special = vcpu.get_sregs()?;
    (special.cs.base, special.cs.selector) = (0, 0);
    vcpu.set_sregs(&special)?;
    let mut registers = vcpu.get_regs()?;
    (registers.rip, registers.rflags, registers.rdx) = (START, 2, 0x10);
    vcpu.set_regs(&registers)?;
    Ok(vcpu)
}

fn main() -> Result<(), Box<dyn Error>> {
    let kvm = kvm::open()?;
    let memory = Memory(GuestMemoryMmap::from_ranges(&[(vm_memory::GuestAddress(0), SIZE)])?);
    memory.0.write_slice(&GUEST, vm_memory::GuestAddress(START))?;

    let mut host = GuestClock::new(Settings::new(Kind::Kvm, kvm::host_tsc()?), host_clock::read())?;
    let vm = create(&kvm, &memory, &host)?;
    let mut vcpu = boot(&vm)?;
    let tsc_offset = kvm::tsc_offset(&vcpu)?;
    let created = Event::VcpuCreated { vcpu: BOOT, tsc_offset };
    host.handle(created, host_clock::read(), &memory);

    let started = Instant::now();
    let mut printed_at = Duration::ZERO;
    while started.elapsed() < Duration::from_millis(350) {
        host.before_entry(BOOT, host_clock::read(), &memory);
        match vcpu.run()? {
            VcpuExit::X86Wrmsr(access) => {
                let now = host_clock::read();
                let written = host.write_msr(BOOT, access.index, access.data, now, &memory);
                // An error becomes #GP in the guest.
                *access.error = u8::from(written.is_err());
            }
            VcpuExit::X86Rdmsr(access) => {
                match host.read_msr(BOOT, access.index, host_clock::read(), &memory) {
                    Ok(value) => *access.data = value,
                    Err(_) => *access.error = 1,
                }
            }
            VcpuExit::IoOut(..) if printed_at <= started.elapsed() => {
                printed_at += Duration::from_millis(100);
                let page: &TimePage = memory.page(PAGE)?;
                let reader = TimeReader::new(page);
                // The guest's TSC is ours plus its offset.
                let guest_tsc = || pvclock::counter::Counter::read(&Tsc).wrapping_add(tsc_offset);
                println!("{}, by {:?}", reader.nanos(&guest_tsc)?, reader.info()?.flags);
            }
            VcpuExit::IoOut(..) => {}
            other => return Err(format!("unexpected exit: {other:?}").into()),
        }
    }
    Ok(())
}
