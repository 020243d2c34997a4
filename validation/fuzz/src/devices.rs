//! The devices of `vmm` under a guest that does anything, as time passes.
//!
//! The bytes are a program: operations and their operands, one after the
//! other. Two machines run it, and one is saved and restored in between: a
//! guest must not see a difference. All waiting ends; counters show the time.

use pvclock::Nanos;
use pvclock::units::UnixTime;
use vmm::devices::{AcpiPmTimer, DeviceRate, Devices, Hpet, LocalTimer, Moment};

use crate::bytes::Bytes;
use rig::{Machine, Step};

/// The machine of `vmm`'s own tests.
#[path = "../../../crates/vmm/src/devices/tests/rig.rs"]
mod rig;

/// Ports of devices, and some near them; other values of the byte are followed
/// by the port.
const PORTS: &[u16] = &[
    0x600, 0x602, 0x604, 0x605, 0x61, 0x70, 0x71, 0x3f8, 0x3f9, 0x3fa, 0x3fb, 0x3fc, 0x3fd, 0x3fe,
    0x3ff, 0x608, 0x60b, 0x3f, 0x6f, 0xffff,
];

/// MSRs in the same way.
const MSRS: &[u32] = &[0x802, 0x803, 0x80b, 0x80f, 0x832, 0x838, 0x839, 0x83e];

/// The length of an access.
const LENGTHS: [usize; 8] = [1, 2, 4, 8, 0, 3, 16, 17];

/// A longer run finds nothing new: this is hours of guest time.
const STEPS: usize = 10_000;

/// Runs the program on both machines.
pub(crate) fn devices(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut whole = Machine::new();
    let mut restored = Machine::new();
    for _ in 0..STEPS {
        let Some(operation) = bytes.next() else { break };
        let step = step(operation, &mut bytes);
        assert_eq!(restored.step(&step), whole.step(&step));
        assert_eq!(restored.interrupt(), whole.interrupt());
        if operation & 0x80 != 0 {
            restored = restored.restored();
        }
    }
    check_counter(&mut whole);
    assert_eq!(restored.bus.save(), whole.bus.save());
    assert_eq!(restored.timer, whole.timer);
}

/// One operation and its operands.
fn step(operation: u8, operands: &mut Bytes<'_>) -> Step {
    match operation & 7 {
        0 => Step::In(port(operands), length(operands)),
        1 => {
            let (port, bytes) = (port(operands), length(operands));
            Step::Out(port, operands.take(bytes))
        }
        2 => Step::Load(address(operands), length(operands)),
        3 => {
            let (address, bytes) = (address(operands), length(operands));
            Step::Store(address, operands.take(bytes))
        }
        4 => Step::Rdmsr(msr(operands)),
        5 => {
            let (msr, bytes) = (msr(operands), length(operands));
            Step::Wrmsr(msr, operands.number(bytes))
        }
        6 => Step::Wait(operands.number(2) << (operands.number(1) % 32)),
        _ => Step::TakeSerial,
    }
}

/// Whatever the program did, the simplest clock is right.
fn check_counter(machine: &mut Machine) {
    let mut count = [0; 4];
    machine.bus.port_read(AcpiPmTimer::PORT, &mut count, &machine.now);
    let ticks = DeviceRate::hertz(AcpiPmTimer::FREQUENCY).ticks(machine.now.since_start);
    assert_eq!(u64::from(u32::from_le_bytes(count)), ticks & 0xff_ffff);
}

fn port(operands: &mut Bytes<'_>) -> u16 {
    let known = PORTS.get(operands.number(1) as usize).copied();
    known.unwrap_or_else(|| operands.number(2) as u16)
}

fn msr(operands: &mut Bytes<'_>) -> u32 {
    let known = MSRS.get(operands.number(1) as usize).copied();
    known.unwrap_or_else(|| operands.number(4) as u32)
}

/// In or near the HPET, or with the highest bit set: anywhere.
fn address(operands: &mut Bytes<'_>) -> u64 {
    match operands.number(2) {
        offset @ 0..0x8000 => Hpet::ADDRESS + offset,
        _ => operands.number(8),
    }
}

fn length(operands: &mut Bytes<'_>) -> usize {
    LENGTHS[operands.number(1) as usize % LENGTHS.len()]
}
