//! All devices of a machine with one vCPU, and what a guest or its host does
//! with them: for the tests beside this, and for the fuzzer, which has this
//! file as a module. Both bring the devices' names into scope above it.

use super::{Devices, Hertz, Interrupt, LocalTimer, Moment, Nanos, Present, Ticks, UnixTime};

/// What a guest does, or its host.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads so many bytes of a port.
    In(u16, usize),
    /// Writes a port.
    Out(u16, Vec<u8>),
    /// Reads so many bytes of memory.
    Load(u64, usize),
    /// Writes memory.
    Store(u64, Vec<u8>),
    /// Reads an MSR.
    Rdmsr(u32),
    /// Writes one.
    Wrmsr(u32, u64),
    /// So many ns pass.
    Wait(u64),
    /// The host takes what the serial port has sent.
    TakeSerial,
}

/// The devices, and what time it is.
pub(crate) struct Machine {
    pub(crate) bus: Devices,
    pub(crate) timer: LocalTimer,
    pub(crate) now: Moment,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let real = UnixTime(Nanos(1_795_273_445_000_000_000));
        Self {
            bus: Devices::new(&Present::ALL),
            timer: LocalTimer::new(0, Hertz(1_000_000_000), Hertz(2_600_000_000)),
            now: Moment { since_start: Nanos(0), real, guest_tsc: Ticks(0) },
        }
    }

    /// Does a step; what is seen of it.
    pub(crate) fn step(&mut self, step: &Step) -> (Vec<u8>, Option<u64>) {
        let now = &self.now;
        match step {
            Step::In(port, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.port_read(*port, &mut data, now);
                return (data, None);
            }
            Step::Out(port, data) => self.bus.port_write(*port, data, now),
            Step::Load(address, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.mmio_read(*address, &mut data, now);
                return (data, None);
            }
            Step::Store(address, data) => self.bus.mmio_write(*address, data, now),
            Step::Rdmsr(msr) => return (Vec::new(), self.timer.read_msr(*msr, now).ok()),
            Step::Wrmsr(msr, value) => {
                let done = self.timer.write_msr(*msr, *value, now);
                return (Vec::new(), done.ok().map(|()| 0));
            }
            Step::Wait(ns) => self.wait(*ns),
            Step::TakeSerial => {
                return (self.bus.take_serial_output(), Some(self.bus.serial_lost_bytes()));
            }
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
    pub(crate) fn interrupts(&mut self) -> (Vec<Interrupt>, Option<u8>) {
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

    /// Another one, from what this one saves.
    pub(crate) fn restored(&self) -> Self {
        let state = self.bus.save();
        let bus = Devices::restore(&state).expect("it was saved");
        assert_eq!(bus.save(), state);
        Self { bus, timer: LocalTimer::restore(self.timer.save()), now: self.now }
    }
}
