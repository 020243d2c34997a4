//! The machine that the guest's code runs on: the CPU, which the image has. Here is no
//! unsafe code.

use pvclock::counter::Counter;

use crate::layout::GuestPages;
use crate::network::rings::Area;

/// The CPU raised #GP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// One vCPU and its devices.
pub trait Hardware {
    /// Its TSC.
    type Counter: Counter;

    /// Its TSC.
    fn counter(&self) -> &Self::Counter;
    /// CPUID: EAX, EBX, ECX, EDX.
    fn cpuid(&self, function: u32, index: u32) -> [u32; 4];
    /// RDMSR.
    ///
    /// # Errors
    /// [`Refused`].
    fn read_msr(&self, msr: u32) -> Result<u64, Refused>;
    /// WRMSR.
    ///
    /// # Errors
    /// [`Refused`].
    fn write_msr(&self, msr: u32, value: u64) -> Result<(), Refused>;
    /// IN, one byte.
    fn port_read_8(&self, port: u16) -> u8;
    /// IN, four bytes.
    fn port_read_32(&self, port: u16) -> u32;
    /// OUT, one byte.
    fn port_write_8(&self, port: u16, value: u8);
    /// A device register in memory.
    fn mmio_read_64(&self, address: u64) -> u64;
    /// A device register in memory.
    fn mmio_write_64(&self, address: u64, value: u64);
    /// The clock pages.
    fn pages(&self) -> &GuestPages;
    /// A hint to the CPU that this is a spin loop.
    fn pause(&self);
    /// STI, HLT, CLI: until an interrupt came.
    fn halt(&self);
    /// Interrupts this vCPU has taken.
    fn interrupts(&self) -> u64;
    /// Whether interrupts are taken while this code runs; they are not at first.
    fn interruptible(&self, yes: bool);
    /// A device register in memory, of 32 bits. Where there is none: ones.
    fn mmio_read_32(&self, address: u64) -> u32;
    /// The same, written.
    fn mmio_write_32(&self, address: u64, value: u32);
    /// What this guest shares with its network device, if there is one.
    fn network(&self) -> &Area;
    /// Fails in the given way; does not return.
    fn misbehave(&self, how: Misbehaviour);
}

numbered! {
    /// Ways in which a guest fails, to test that its host survives.
    pub enum Misbehaviour {
        /// An exception without handlers: the CPU shuts down.
        TripleFault,
        /// Halts with interrupts off.
        HaltForever,
        /// Loops without an exit.
        SpinForever,
        /// An access to an address that is not mapped.
        WildPointer,
        /// An invalid instruction.
        UndefinedInstruction,
        /// Reports more records than it wrote, for ever.
        FloodRing,
    }
}
