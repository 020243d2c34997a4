//! The guest of the lab as an image without an operating system: `entry.s`
//! at CPL 0 around the `guest` crate at CPL 3.
//!
//! Our own machine passes it a magic number and uses shared memory; for any
//! other host, which starts it at its PVH entry, it writes a report to the serial
//! port and resets.
//!
//! # Invariants
//! 1. `entry.s` has mapped all of 4 GiB as it is, and comes to `main` once on
//!    each vCPU.
#![no_std]
#![no_main]
#![allow(unsafe_code)]

mod cpu;

use core::panic::PanicInfo;

use guest::hardware::{Hardware, Misbehaviour};
use guest::layout::{MAGIC, SHARED};
use guest::protocol::{SharedArea, VcpuPage};
use guest::serve::ReportServer;

use cpu::BootCpu;

core::arch::global_asm!(include_str!("entry.s"), options(att_syntax));
core::arch::global_asm!(include_str!("memory.s"), options(att_syntax));

// The assumptions of entry.s.
const _: () = {
    assert!(guest::layout::VCPUS_MAX == 32);
    assert!(guest::layout::IMAGE == 0x10_0000);
    assert!(guest::layout::DOORBELL == 0xf00);
    assert!(guest::layout::DOORBELL_DIED == 2);
    assert!(size_of::<VcpuPage>() == 0x6100);
    let last_words = SharedArea::VCPUS_OFFSET + core::mem::offset_of!(VcpuPage, last_words);
    assert!(SHARED as usize + last_words == 0x80_00c0);
};

/// The entry to CPL 3 from `entry.s`.
#[unsafe(no_mangle)]
extern "C" fn main(vcpu: usize, magic: u64) -> ! {
    if magic == MAGIC {
        // SAFETY: mapped (invariant 1), 4096-byte aligned, atomics only, and
        // zeroed memory is a valid value.
        let shared: &SharedArea = unsafe { &*core::ptr::with_exposed_provenance(SHARED as usize) };
        ReportServer::start(&BootCpu, shared, vcpu).serve()
    }
    guest::report::send(&BootCpu);
    reset()
}

/// Resets by the keyboard controller, or, without one, by a triple fault.
fn reset() -> ! {
    BootCpu.port_write_8(0x64, 0xfe);
    BootCpu.misbehave(Misbehaviour::TripleFault);
    loop {
        BootCpu.pause();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    // The exception gate reports the place to the host.
    BootCpu.misbehave(Misbehaviour::UndefinedInstruction);
    loop {
        BootCpu.pause();
    }
}
