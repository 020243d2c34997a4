//! The machine that the guest's code runs on. In the image it is the CPU; tests,
//! and hosts without KVM, have a model of one.

use pvclock::counter::Counter;
use pvclock::shared::Memory;

use crate::layout::GuestPages;
use crate::network::rings::Area;

/// The CPU raised #GP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// One vCPU and its devices.
pub trait Hardware {
    /// Its TSC.
    type Counter: Counter;
    /// The words of its clock pages: another party in the same process must take the
    /// same, as its host does ([`Split`](pvclock::shared::Split)).
    type Memory: Memory;

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
    fn pages(&self) -> &GuestPages<Self::Memory>;
    /// A hint to the CPU that this is a spin loop.
    fn pause(&self);
    /// STI, HLT, CLI: until an interrupt came.
    fn halt(&self);
    /// Interrupts this vCPU has taken.
    fn interrupts(&self) -> u64;
    /// Whether interrupts are taken while this code runs; they are not at first.
    fn interruptible(&self, _yes: bool) {}
    /// A device register in memory, of 32 bits. Where there is none: ones.
    fn mmio_read_32(&self, _address: u64) -> u32 {
        u32::MAX
    }
    /// The same, written.
    fn mmio_write_32(&self, _address: u64, _value: u32) {}
    /// What this guest shares with its network device; `None` where it can have none.
    fn network(&self) -> Option<&Area> {
        None
    }
    /// Fails in the given way; does not return.
    fn misbehave(&self, how: Misbehaviour);
}

/// Ways in which a guest fails, to test that its host survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl Misbehaviour {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::TripleFault,
        Self::HaltForever,
        Self::SpinForever,
        Self::WildPointer,
        Self::UndefinedInstruction,
        Self::FloodRing,
    ];

    /// Its number in a request.
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The way of that number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.number() == number)
    }
}
