//! The ports and addresses of the devices.

use vmm_sys_util::eventfd::EventFd;

use super::{
    AcpiPmTimer, Hpet, Moment, Pit, PmWidth, RtcChip, RtcSettings, SerialPort, SerialPortState, pm1,
};

/// Which devices a machine has; a serial port is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// The ACPI PM timer, and its width.
    pub pm_timer: Option<PmWidth>,
    /// The HPET.
    pub hpet: bool,
    /// The PIT and its gate.
    pub pit: bool,
    /// The real-time clock, and its zone.
    pub rtc: Option<RtcSettings>,
}

impl Present {
    /// What every PC has, with a 24-bit PM timer and an RTC in UTC.
    pub const ALL: Self = Self {
        pm_timer: Some(PmWidth::Bits24),
        hpet: true,
        pit: true,
        rtc: Some(RtcSettings::UTC),
    };

    /// A serial port and nothing else.
    pub const NONE: Self = Self { pm_timer: None, hpet: false, pit: false, rtc: None };
}

/// The saved state of all devices. The machine's own time must continue where
/// it was: registers are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicesState {
    /// The PM timer.
    pub pm_timer: Option<AcpiPmTimer>,
    /// The HPET.
    pub hpet: Option<Hpet>,
    /// The PIT.
    pub pit: Option<Pit>,
    /// The real-time clock.
    pub rtc: Option<RtcChip>,
    /// The serial port.
    pub serial: SerialPortState,
}

/// Why devices cannot be restored from a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unrestorable {
    /// The receive buffer is longer than that of the device.
    #[error("the saved serial port has {bytes} received bytes, more than rust-vmm's 16550 holds")]
    SerialInput {
        /// How many.
        bytes: usize,
    },
}

/// The devices on the bus.
#[derive(Debug)]
pub struct Devices {
    pm_timer: Option<AcpiPmTimer>,
    hpet: Option<Hpet>,
    pit: Option<Pit>,
    rtc: Option<RtcChip>,
    serial: SerialPort,
}

impl Devices {
    /// As after a reset.
    pub fn new(present: &Present) -> Self {
        Self {
            pm_timer: present.pm_timer.map(|width| AcpiPmTimer { width }),
            hpet: present.hpet.then(Hpet::default),
            pit: present.pit.then(Pit::default),
            rtc: present.rtc.map(|settings| RtcChip::new(&settings)),
            serial: SerialPort::new(None),
        }
    }

    /// Gives the serial port an interrupt line, before the guest starts.
    pub(crate) fn connect_serial(&mut self, line: EventFd) {
        self.serial = SerialPort::new(Some(line));
    }

    /// As they were saved; the serial port with its interrupt line, where it had one.
    ///
    /// # Errors
    /// [`Unrestorable`], when the state does not come from [`save`](Self::save).
    pub fn restore(state: &DevicesState, line: Option<EventFd>) -> Result<Self, Unrestorable> {
        let bytes = state.serial.registers.in_buffer.len();
        Ok(Self {
            pm_timer: state.pm_timer,
            hpet: state.hpet,
            pit: state.pit,
            rtc: state.rtc.clone(),
            serial: SerialPort::restore(&state.serial, line)
                .ok_or(Unrestorable::SerialInput { bytes })?,
        })
    }

    /// What to restore them from.
    pub fn save(&self) -> DevicesState {
        DevicesState {
            pm_timer: self.pm_timer,
            hpet: self.hpet,
            pit: self.pit,
            rtc: self.rtc.clone(),
            serial: self.serial.save(),
        }
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
    pub fn port_write(&mut self, port: u16, data: &[u8], now: &Moment) {
        for (i, byte) in data.iter().enumerate() {
            if let Some(port) = nth_port(port, i) {
                self.write_byte(port, *byte, now);
            }
        }
    }

    /// A read of memory that is not RAM.
    pub fn mmio_read(&mut self, address: u64, data: &mut [u8], now: &Moment) {
        let hpet = self.hpet.as_ref().zip(in_hpet(address, data.len()));
        if !hpet.is_some_and(|(hpet, offset)| hpet.read(offset, data, now)) {
            data.fill(0xff);
        }
    }

    /// A write to memory that is not RAM.
    pub fn mmio_write(&mut self, address: u64, data: &[u8], now: &Moment) {
        if let Some((hpet, offset)) = self.hpet.as_mut().zip(in_hpet(address, data.len())) {
            hpet.write(offset, data, now);
        }
    }

    /// What the guest has sent over the serial port since the last call.
    pub fn take_serial_output(&mut self) -> Vec<u8> {
        self.serial.take_output()
    }

    fn read_byte(&mut self, port: u16, now: &Moment) -> Option<u8> {
        if let Some(register) = Pit::register(port) {
            return self.pit.as_mut().map(|pit| pit.read(register, now));
        }
        match port {
            RtcChip::PORT | RtcChip::DATA_PORT => self.rtc.as_ref().map(|rtc| rtc.read(port, now)),
            _ => {
                match (offset_in(port, SerialPort::PORT, 8), offset_in(port, AcpiPmTimer::PORT, 4))
                {
                    (Some(register), _) => Some(self.serial.read(register)),
                    (_, Some(byte)) => {
                        let count = self.pm_timer?.read(now).to_le_bytes();
                        Some(count[usize::from(byte)])
                    }
                    _ => pm1::read(port),
                }
            }
        }
    }

    fn write_byte(&mut self, port: u16, value: u8, now: &Moment) {
        match (Pit::register(port), &mut self.pit, &mut self.rtc) {
            (Some(register), Some(pit), _) => pit.write(register, value, now),
            (None, _, Some(rtc)) if matches!(port, RtcChip::PORT | RtcChip::DATA_PORT) => {
                rtc.write(port, value, now);
            }
            _ => {
                if let Some(register) = offset_in(port, SerialPort::PORT, 8) {
                    self.serial.write(register, value);
                }
            }
        }
    }
}

fn nth_port(port: u16, n: usize) -> Option<u16> {
    port.checked_add(u16::try_from(n).ok()?)
}

fn offset_in(port: u16, first: u16, ports: u8) -> Option<u8> {
    let offset = u8::try_from(port.checked_sub(first)?).ok()?;
    (offset < ports).then_some(offset)
}

/// The offset in the HPET of an access that is wholly inside.
fn in_hpet(address: u64, bytes: usize) -> Option<u64> {
    let offset = address.checked_sub(Hpet::ADDRESS)?;
    let end = offset.checked_add(u64::try_from(bytes).ok()?)?;
    (end <= Hpet::BYTES).then_some(offset)
}

#[cfg(test)]
mod tests;
