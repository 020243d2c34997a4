//! The first serial port: rust-vmm's 16550 in front of a buffer that a guest
//! cannot grow. Its interrupt line is connected for a Linux guest only, which
//! sends by it.

use std::collections::VecDeque;
use std::io;

use vm_superio::serial::NoEvents;
use vm_superio::{Serial, SerialState, Trigger};
use vmm_sys_util::eventfd::EventFd;

/// Its saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialPortState {
    /// The UART's registers and what it has received.
    pub registers: SerialState,
    /// What the guest sent and nobody has read yet.
    pub output: Vec<u8>,
    /// Bytes dropped from a full buffer.
    pub lost_bytes: u64,
}

/// The port.
#[derive(Debug)]
pub struct SerialPort {
    uart: Serial<SerialLine, NoEvents, SerialOutput>,
}

impl SerialPort {
    /// COM1: eight ports.
    pub const PORT: u16 = 0x3f8;
    /// COM1's interrupt.
    pub const INTERRUPT: u32 = 4;
    /// How much output it keeps until it is read. When a guest sends more, the
    /// oldest bytes are dropped: the last ones show why it stopped.
    pub const OUTPUT_BYTES: usize = 64 * 1024;

    /// The register behind a port.
    pub(super) fn register(port: u16) -> Option<u8> {
        port.checked_sub(Self::PORT)
            .and_then(|register| u8::try_from(register).ok())
            .filter(|register| *register < 8)
    }

    /// As after a reset, with an interrupt line if there is one.
    pub fn new(line: Option<EventFd>) -> Self {
        Self { uart: Serial::new(SerialLine(line), SerialOutput::default()) }
    }

    /// As it was saved, with its interrupt line, if it had one; `None` when more was
    /// received than a 16550 holds.
    pub fn restore(state: &SerialPortState, line: Option<EventFd>) -> Option<Self> {
        let mut output = SerialOutput { bytes: VecDeque::new(), lost: state.lost_bytes };
        output.keep(&state.output);
        let line = SerialLine(line);
        // An interrupt on its way to the vCPU at the save is raised again; one too many
        // does no harm.
        let _ = line.trigger();
        let uart = Serial::from_state(&state.registers, line, NoEvents, output).ok()?;
        Some(Self { uart })
    }

    /// What to restore it from.
    pub fn save(&self) -> SerialPortState {
        let output = self.uart.writer();
        SerialPortState {
            registers: self.uart.state(),
            output: output.bytes.iter().copied().collect(),
            lost_bytes: output.lost,
        }
    }

    /// Reads a register, 0 to 7.
    pub fn read(&mut self, register: u8) -> u8 {
        self.uart.read(register)
    }

    /// Writes a register, 0 to 7.
    pub fn write(&mut self, register: u8, value: u8) {
        // The buffer cannot fail, and a pending interrupt need not be raised again.
        let _ = self.uart.write(register, value);
    }

    /// What the guest has sent since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.uart.writer_mut().bytes.drain(..).collect()
    }
}

/// The interrupt line, if it is connected.
#[derive(Debug)]
struct SerialLine(Option<EventFd>);

impl Trigger for SerialLine {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |line| line.write(1))
    }
}

/// What the guest sent.
#[derive(Debug, Default)]
struct SerialOutput {
    bytes: VecDeque<u8>,
    lost: u64,
}

impl SerialOutput {
    fn keep(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.bytes.len() == SerialPort::OUTPUT_BYTES {
                self.bytes.pop_front();
                self.lost = self.lost.saturating_add(1);
            }
            self.bytes.push_back(*byte);
        }
    }
}

impl io::Write for SerialOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.keep(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
