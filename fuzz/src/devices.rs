//! The devices of `machine` under a guest that does anything, as time goes on.
//!
//! The bytes are a program: operations and their operands, one after the
//! other. Two machines run it, and one is saved and restored in between: a
//! guest must not be able to tell. All waiting ends; counters say what time
//! it is.

use machine::devices::{AcpiPmTimer, Devices, Hpet, Interrupt, LocalTimer, Moment, Present, Rate};
use provider::UnixTime;
use pvclock::{Hertz, Nanos, Ticks};

use crate::bytes::Bytes;

/// Ports that mean something, and some beside them; other values of the byte
/// are followed by the port.
const PORTS: &[u16] = &[
    0x40, 0x41, 0x42, 0x43, 0x61, 0x70, 0x71, 0x3f8, 0x3f9, 0x3fa, 0x3fb, 0x3fc, 0x3fd, 0x3fe,
    0x3ff, 0x608, 0x60b, 0x3f, 0x6f, 0xffff,
];

/// MSRs likewise.
const MSRS: &[u32] = &[0x6e0, 0x802, 0x803, 0x80b, 0x80f, 0x832, 0x838, 0x839, 0x83e];

/// How long an access is.
const LENGTHS: [usize; 8] = [1, 2, 4, 8, 0, 3, 16, 17];

/// A guest that runs for ever is no news: this is hours.
const STEPS: usize = 10_000;

/// Runs the program on both machines.
pub(crate) fn devices(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut whole = Machine::new();
    let mut restored = Machine::new();
    for _ in 0..STEPS {
        let Some(operation) = bytes.next() else { break };
        let operands = bytes.clone();
        let seen = whole.step(operation, &mut bytes);
        assert_eq!(restored.step(operation, &mut operands.clone()), seen);
        assert_eq!(restored.interrupts(), whole.interrupts());
        if operation & 0x80 != 0 {
            restored = restored.again();
        }
    }
    whole.check_counter();
    assert_eq!(restored.bus.save(), whole.bus.save());
    assert_eq!(restored.timer.save(), whole.timer.save());
}

/// All devices of a machine with one vCPU.
struct Machine {
    bus: Devices,
    timer: LocalTimer,
    now: Moment,
}

impl Machine {
    fn new() -> Self {
        let real = UnixTime(Nanos(1_795_273_445_000_000_000));
        Self {
            bus: Devices::new(&Present::ALL),
            timer: LocalTimer::new(0, Hertz(1_000_000_000), Hertz(2_600_000_000)),
            now: Moment { since_start: Nanos(0), real, guest_tsc: Ticks(0) },
        }
    }

    /// One operation; what the guest sees of it.
    fn step(&mut self, operation: u8, operands: &mut Bytes<'_>) -> (Vec<u8>, Option<u64>) {
        let now = &self.now;
        match operation & 7 {
            0 => {
                let (port, mut data) = (port(operands), vec![0; length(operands)]);
                self.bus.port_read(port, &mut data, now);
                return (data, None);
            }
            1 => {
                let (port, bytes) = (port(operands), length(operands));
                self.bus.port_write(port, &operands.take(bytes), now);
            }
            2 => {
                let (address, mut data) = (address(operands), vec![0; length(operands)]);
                self.bus.mmio_read(address, &mut data, now);
                return (data, None);
            }
            3 => {
                let (address, bytes) = (address(operands), length(operands));
                self.bus.mmio_write(address, &operands.take(bytes), now);
            }
            4 => return (Vec::new(), self.timer.read_msr(msr(operands), now).ok()),
            5 => {
                let (msr, bytes) = (msr(operands), length(operands));
                let done = self.timer.write_msr(msr, operands.number(bytes), now);
                return (Vec::new(), done.ok().map(|()| 0));
            }
            6 => self.wait(operands.number(2) << (operands.number(1) % 32)),
            _ => return (self.bus.take_serial_output(), Some(self.bus.serial_lost_bytes())),
        }
        (Vec::new(), None)
    }

    fn wait(&mut self, ns: u64) {
        let Moment { since_start, real: UnixTime(real), guest_tsc } = self.now;
        self.now = Moment {
            since_start: Nanos(since_start.0.saturating_add(ns)),
            real: UnixTime(Nanos(real.0.saturating_add(ns))),
            guest_tsc: Ticks(guest_tsc.0.wrapping_add(ns / 5 * 13)),
        };
    }

    /// What interrupts now; afterwards nothing may be left to do.
    fn interrupts(&mut self) -> (Vec<Interrupt>, Option<u8>) {
        let mut raised = Vec::new();
        while let Some(interrupt) = self.bus.due(&self.now) {
            raised.push(interrupt);
            assert!(raised.len() <= 2, "more than one of each: {raised:?}");
        }
        let vector = self.timer.due(&self.now);
        assert_eq!(self.timer.due(&self.now), None, "a second before the end of {vector:?}");
        for deadline in [self.bus.next_deadline(&self.now), self.timer.deadline(&self.now)] {
            let now = self.now.since_start;
            assert!(deadline.is_none_or(|deadline| deadline > now), "{deadline:?} at {now}");
        }
        (raised, vector)
    }

    /// What the program left cannot disturb the simplest clock.
    fn check_counter(&mut self) {
        let mut count = [0; 4];
        self.bus.port_read(AcpiPmTimer::PORT, &mut count, &self.now);
        let ticks = Rate::hertz(AcpiPmTimer::FREQUENCY).ticks(self.now.since_start);
        assert_eq!(u64::from(u32::from_le_bytes(count)), ticks & 0xff_ffff);
    }

    /// Saved and restored.
    fn again(self) -> Self {
        let state = self.bus.save();
        let bus = Devices::restore(&state).expect("it was saved");
        assert_eq!(bus.save(), state);
        Self { bus, timer: LocalTimer::restore(self.timer.save()), now: self.now }
    }
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
