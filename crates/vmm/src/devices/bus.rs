//! The ports and addresses of the devices.

use vmm_sys_util::eventfd::EventFd;

use super::{Hpet, Moment, RtcChip, SerialPort, SerialPortState, acpi};

/// The saved state of all devices. The machine's own time must continue where
/// it was: registers are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicesState {
    /// The HPET.
    pub hpet: Hpet,
    /// The real-time clock.
    pub rtc: Option<RtcChip>,
    /// The serial port.
    pub serial: SerialPortState,
}

/// The devices on the bus.
#[derive(Debug)]
pub struct Devices {
    hpet: Hpet,
    rtc: Option<RtcChip>,
    serial: SerialPort,
}

impl Devices {
    /// As after a reset, with an interrupt line of the serial port if there is one.
    pub fn new(has_rtc: bool, line: Option<EventFd>) -> Self {
        let rtc = has_rtc.then(RtcChip::default);
        Self { hpet: Hpet::default(), rtc, serial: SerialPort::new(line) }
    }

    /// As they were saved; `None` when the serial port received more than a 16550 holds.
    pub fn restore(state: &DevicesState, line: Option<EventFd>) -> Option<Self> {
        let serial = SerialPort::restore(&state.serial, line)?;
        Some(Self { hpet: state.hpet, rtc: state.rtc, serial })
    }

    /// What to restore them from.
    pub fn save(&self) -> DevicesState {
        DevicesState { hpet: self.hpet, rtc: self.rtc, serial: self.serial.save() }
    }

    /// One IN instruction; a string of them is a call for each element. Wide
    /// accesses reach the ports that follow, as on the ISA bus, all at one
    /// moment. A port without a device reads as ones.
    pub fn port_read(&mut self, port: u16, data: &mut [u8], now: &Moment) {
        for (i, byte) in data.iter_mut().enumerate() {
            let read = nth_port(port, i).and_then(|port| self.read_byte(port, now));
            *byte = read.unwrap_or(0xff);
        }
    }

    /// One OUT instruction, as [`port_read`](Self::port_read). A port without a
    /// device ignores it.
    pub fn port_write(&mut self, port: u16, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            if let Some(port) = nth_port(port, i) {
                self.write_byte(port, *byte);
            }
        }
    }

    /// A read of memory that is not RAM.
    pub fn mmio_read(&mut self, address: u64, data: &mut [u8], now: &Moment) {
        let offset = in_hpet(address, data.len());
        if !offset.is_some_and(|offset| self.hpet.read(offset, data, now)) {
            data.fill(0xff);
        }
    }

    /// A write to memory that is not RAM.
    pub fn mmio_write(&mut self, address: u64, data: &[u8], now: &Moment) {
        if let Some(offset) = in_hpet(address, data.len()) {
            self.hpet.write(offset, data, now);
        }
    }

    /// What the guest has sent over the serial port since the last call.
    pub fn take_serial_output(&mut self) -> Vec<u8> {
        self.serial.take_output()
    }

    fn read_byte(&mut self, port: u16, now: &Moment) -> Option<u8> {
        match (port, SerialPort::register(port)) {
            (RtcChip::PORT | RtcChip::DATA_PORT, _) => {
                self.rtc.as_ref().map(|rtc| rtc.read(port, now))
            }
            (_, Some(register)) => Some(self.serial.read(register)),
            _ => acpi::read(port, now),
        }
    }

    fn write_byte(&mut self, port: u16, value: u8) {
        match (port, SerialPort::register(port), &mut self.rtc) {
            (RtcChip::PORT | RtcChip::DATA_PORT, _, Some(rtc)) => rtc.write(port, value),
            (_, Some(register), _) => self.serial.write(register, value),
            _ => {}
        }
    }
}

fn nth_port(port: u16, n: usize) -> Option<u16> {
    port.checked_add(u16::try_from(n).ok()?)
}

/// The offset in the HPET of an access that is wholly inside.
fn in_hpet(address: u64, bytes: usize) -> Option<u64> {
    let offset = address.checked_sub(Hpet::ADDRESS)?;
    let end = offset.checked_add(u64::try_from(bytes).ok()?)?;
    (end <= Hpet::BYTES).then_some(offset)
}

#[cfg(test)]
mod tests;
