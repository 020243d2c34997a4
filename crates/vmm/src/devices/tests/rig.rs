//! All devices of a machine with one vCPU, and what a guest or its host does
//! with them: for the sibling tests, and for the fuzzer, which includes this
//! file as a module. Both import the devices' names above it.

use super::{Devices, LocalTimer, Moment, Nanos, UnixTime};

/// A step of the guest or its host.
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
    /// The host reads the output of the serial port.
    TakeSerial,
}

/// The devices, and the time.
pub(crate) struct Machine {
    pub(crate) bus: Devices,
    pub(crate) timer: LocalTimer,
    pub(crate) now: Moment,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let real = UnixTime(Nanos(1_795_273_445_000_000_000));
        Self {
            bus: Devices::new(true, None),
            timer: LocalTimer::new(0),
            now: Moment { since_start: Nanos(0), real },
        }
    }

    /// Makes a step; returns what the guest sees of it.
    pub(crate) fn step(&mut self, step: &Step) -> (Vec<u8>, Option<u64>) {
        let now = &self.now;
        match step {
            Step::In(port, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.port_read(*port, &mut data, now);
                return (data, None);
            }
            Step::Out(port, data) => self.bus.port_write(*port, data),
            Step::Load(address, bytes) => {
                let mut data = vec![0; *bytes];
                self.bus.mmio_read(*address, &mut data, now);
                return (data, None);
            }
            Step::Store(address, data) => self.bus.mmio_write(*address, data, now),
            Step::Rdmsr(msr) => return (Vec::new(), self.timer.read_msr(*msr, now)),
            Step::Wrmsr(msr, value) => {
                let done = self.timer.write_msr(*msr, *value, now);
                return (Vec::new(), done.map(|()| 0));
            }
            Step::Wait(ns) => self.wait(*ns),
            Step::TakeSerial => {
                return (self.bus.take_serial_output(), Some(self.bus.save().serial.lost_bytes));
            }
        }
        (Vec::new(), None)
    }

    fn wait(&mut self, ns: u64) {
        let Moment { since_start, real: UnixTime(real) } = self.now;
        self.now = Moment {
            since_start: Nanos(since_start.0.saturating_add(ns)),
            real: UnixTime(Nanos(real.0.saturating_add(ns))),
        };
    }

    /// The vector that interrupts now; afterwards none may be due.
    pub(crate) fn interrupt(&mut self) -> Option<u8> {
        let vector = self.timer.due(&self.now);
        assert_eq!(self.timer.due(&self.now), None, "a second before the end of {vector:?}");
        let (deadline, now) = (self.timer.deadline(), self.now.since_start);
        assert!(deadline.is_none_or(|deadline| deadline > now), "{deadline:?} at {now}");
        vector
    }

    /// Another machine, restored from this one's state.
    pub(crate) fn restored(&self) -> Self {
        let state = self.bus.save();
        let bus = Devices::restore(&state, None).expect("it was saved");
        assert_eq!(bus.save(), state);
        Self { bus, timer: self.timer, now: self.now }
    }
}
