//! The CPU that this image runs on, at CPL 3, with services of `entry.s` for
//! privileged instructions.
//!
//! # Invariants
//! 1. `entry.s` has given CPL 3 all I/O ports, and maps all of 4 GiB; a device
//!    writes to memory that Rust takes for atomics alone.
//! 2. A service keeps all registers but RAX, RCX and RDX, and the stack.
//! 3. GS is the vCPU's own block, at CPL 3 as well: its second word counts interrupts.
#![allow(unsafe_code)]

use core::arch::asm;

use guest::hardware::{Hardware, Misbehaviour, Refused};
use guest::layout::{GuestPages, NETWORK_MEMORY, PAGES};
use guest::network::rings::Area;
use pvclock::counter::Tsc;

/// Services of `entry.s`.
const READ_MSR: u64 = 0;
const WRITE_MSR: u64 = 1;
const HALT: u64 = 2;
const HALT_FOREVER: u64 = 3;
const TRIPLE_FAULT: u64 = 4;
const CPUID: u64 = 5;
const INTERRUPTIBLE: u64 = 6;

/// This CPU.
#[derive(Debug)]
pub(crate) struct BootCpu;

fn service(number: u64, first: u64, second: u64) -> (u64, u64) {
    let (rax, rdx);
    // SAFETY: invariant 2.
    unsafe {
        asm!("call service", in("r9") number, in("rdi") first, in("rsi") second,
            out("rax") rax, out("rdx") rdx, out("rcx") _);
    }
    (rax, rdx)
}

impl Hardware for BootCpu {
    type Counter = Tsc;

    #[inline(always)]
    fn counter(&self) -> &Tsc {
        &Tsc
    }

    /// At CPL 0: a hypervisor that runs CPL 3 natively cannot catch it there.
    fn cpuid(&self, function: u32, index: u32) -> [u32; 4] {
        let (low, high) = service(CPUID, function.into(), index.into());
        [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
    }

    fn read_msr(&self, msr: u32) -> Result<u64, Refused> {
        let (value, refused) = service(READ_MSR, msr.into(), 0);
        if refused == 0 { Ok(value) } else { Err(Refused) }
    }

    fn write_msr(&self, msr: u32, value: u64) -> Result<(), Refused> {
        let (_, refused) = service(WRITE_MSR, msr.into(), value);
        if refused == 0 { Ok(()) } else { Err(Refused) }
    }

    fn port_read_8(&self, port: u16) -> u8 {
        let value;
        // SAFETY: invariant 1.
        unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
        value
    }

    fn port_read_32(&self, port: u16) -> u32 {
        let value;
        // SAFETY: invariant 1.
        unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack)) };
        value
    }

    fn port_write_8(&self, port: u16, value: u8) {
        // SAFETY: invariant 1; the host may act on memory at a doorbell, so
        // this is no `nomem`.
        unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) };
    }

    fn mmio_read_64(&self, address: u64) -> u64 {
        // SAFETY: invariant 1.
        unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
    }

    fn mmio_write_64(&self, address: u64, value: u64) {
        let register = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        // SAFETY: invariant 1.
        unsafe { register.write_volatile(value) }
    }

    #[inline(always)]
    fn pages(&self) -> &GuestPages {
        // SAFETY: mapped (invariant 1), 4096-byte aligned, atomics only.
        unsafe { &*core::ptr::with_exposed_provenance(PAGES as usize) }
    }

    #[inline(always)]
    fn pause(&self) {
        core::hint::spin_loop();
    }

    fn halt(&self) {
        service(HALT, 0, 0);
    }

    #[inline(always)]
    fn interrupts(&self) -> u64 {
        let count;
        // SAFETY: invariant 3.
        unsafe { asm!("mov {}, gs:[8]", out(reg) count, options(nostack, preserves_flags)) };
        count
    }

    fn interruptible(&self, yes: bool) {
        service(INTERRUPTIBLE, yes.into(), 0);
    }

    fn mmio_read_32(&self, address: u64) -> u32 {
        // SAFETY: invariant 1.
        unsafe { core::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile() }
    }

    fn mmio_write_32(&self, address: u64, value: u32) {
        let register = core::ptr::with_exposed_provenance_mut::<u32>(address as usize);
        // SAFETY: invariant 1.
        unsafe { register.write_volatile(value) }
    }

    fn network(&self) -> &Area {
        // SAFETY: mapped (invariant 1), 4096-byte aligned, atomics only. Without a device
        // nobody looks: its registers read as ones.
        unsafe { &*core::ptr::with_exposed_provenance(NETWORK_MEMORY as usize) }
    }

    fn misbehave(&self, how: Misbehaviour) {
        match how {
            Misbehaviour::TripleFault => _ = service(TRIPLE_FAULT, 0, 0),
            Misbehaviour::HaltForever => _ = service(HALT_FOREVER, 0, 0),
            Misbehaviour::SpinForever => loop {
                self.pause();
            },
            Misbehaviour::WildPointer => _ = self.mmio_read_64(1 << 40),
            // SAFETY: it ends in an exception gate that does not return.
            Misbehaviour::UndefinedInstruction => unsafe { asm!("ud2") },
            // The protocol does this, not the CPU.
            Misbehaviour::FloodRing => {}
        }
    }
}
