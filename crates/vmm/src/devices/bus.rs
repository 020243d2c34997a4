//! Which device answers to which port and address.

use pvclock::Nanos;

use super::{
    AcpiPmTimer, Hpet, HpetState, Interrupt, Moment, Pit, PitState, PmWidth, Rtc, RtcSettings,
    RtcState, SerialPort, SerialPortState,
};

/// Which devices a machine has; a serial port is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// The ACPI PM timer, and how wide.
    pub pm_timer: Option<PmWidth>,
    /// The HPET.
    pub hpet: bool,
    /// The PIT and its gate.
    pub pit: bool,
    /// The real-time clock, and what it shows.
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

/// Accesses that no device answered, or not in full. Each counts once,
/// whatever its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strays {
    /// Reads of ports.
    pub port_reads: u64,
    /// Writes to ports.
    pub port_writes: u64,
    /// Reads of memory.
    pub mmio_reads: u64,
    /// Writes to memory.
    pub mmio_writes: u64,
    /// The port of the last of them.
    pub last_port: Option<u16>,
    /// The address of the last of them.
    pub last_address: Option<u64>,
}

/// What of all devices is saved. The machine's own time has to go on from
/// where it was: registers are kept relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicesState {
    /// The PM timer.
    pub pm_timer: Option<PmWidth>,
    /// The HPET.
    pub hpet: Option<HpetState>,
    /// The PIT.
    pub pit: Option<PitState>,
    /// The real-time clock.
    pub rtc: Option<RtcState>,
    /// The serial port.
    pub serial: SerialPortState,
    /// What went astray so far.
    pub strays: Strays,
}

/// Why a state is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unrestorable {
    /// More in the receive buffer than there is room for.
    #[error(
        "the saved serial port has received {bytes} bytes, more than a 16550 of rust-vmm holds"
    )]
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
    rtc: Option<Rtc>,
    serial: SerialPort,
    strays: Strays,
}

impl Devices {
    /// As after a reset.
    pub fn new(present: &Present) -> Self {
        Self {
            pm_timer: present.pm_timer.map(|width| AcpiPmTimer { width }),
            hpet: present.hpet.then(Hpet::new),
            pit: present.pit.then(Pit::new),
            rtc: present.rtc.map(|settings| Rtc::new(&settings)),
            serial: SerialPort::new(),
            strays: Strays::default(),
        }
    }

    /// As they were saved.
    ///
    /// # Errors
    /// [`Unrestorable`], when the state does not come from [`save`](Self::save).
    pub fn restore(state: &DevicesState) -> Result<Self, Unrestorable> {
        let bytes = state.serial.registers.in_buffer.len();
        Ok(Self {
            pm_timer: state.pm_timer.map(|width| AcpiPmTimer { width }),
            hpet: state.hpet.map(Hpet::restore),
            pit: state.pit.map(Pit::restore),
            rtc: state.rtc.clone().map(Rtc::restore),
            serial: SerialPort::restore(&state.serial)
                .ok_or(Unrestorable::SerialInput { bytes })?,
            strays: state.strays,
        })
    }

    /// What to restore them from.
    pub fn save(&self) -> DevicesState {
        DevicesState {
            pm_timer: self.pm_timer.map(|timer| timer.width),
            hpet: self.hpet.as_ref().map(Hpet::save),
            pit: self.pit.as_ref().map(Pit::save),
            rtc: self.rtc.as_ref().map(Rtc::save),
            serial: self.serial.save(),
            strays: self.strays,
        }
    }

    /// One IN instruction; a string of them is a call for each element. Wide
    /// accesses reach the ports that follow, as on the ISA bus, all at one
    /// moment. Where no device is, all bits are ones.
    pub fn port_read(&mut self, port: u16, data: &mut [u8], now: &Moment) {
        let mut stray = false;
        for (i, byte) in data.iter_mut().enumerate() {
            let read = nth_port(port, i).and_then(|port| self.read_byte(port, now));
            stray |= read.is_none();
            *byte = read.unwrap_or(0xff);
        }
        if stray {
            self.strays.port_reads += 1;
            self.strays.last_port = Some(port);
        }
    }

    /// One OUT instruction, as [`port_read`](Self::port_read). Where no device
    /// is, nothing happens.
    pub fn port_write(&mut self, port: u16, data: &[u8], now: &Moment) {
        let mut stray = false;
        for (i, byte) in data.iter().enumerate() {
            let done = nth_port(port, i).is_some_and(|port| self.write_byte(port, *byte, now));
            stray |= !done;
        }
        if stray {
            self.strays.port_writes += 1;
            self.strays.last_port = Some(port);
        }
    }

    /// A read of memory that is not RAM.
    pub fn mmio_read(&mut self, address: u64, data: &mut [u8], now: &Moment) {
        let hpet = self.hpet.as_ref().zip(in_hpet(address, data.len()));
        if !hpet.is_some_and(|(hpet, offset)| hpet.read(offset, data, now)) {
            data.fill(0xff);
            self.strays.mmio_reads += 1;
            self.strays.last_address = Some(address);
        }
    }

    /// A write to memory that is not RAM.
    pub fn mmio_write(&mut self, address: u64, data: &[u8], now: &Moment) {
        let hpet = self.hpet.as_mut().zip(in_hpet(address, data.len()));
        if !hpet.is_some_and(|(hpet, offset)| hpet.write(offset, data, now)) {
            self.strays.mmio_writes += 1;
            self.strays.last_address = Some(address);
        }
    }

    /// When to ask [`due`](Self::due) next, on the machine's own time: now or
    /// in the past when something is due already. Ask anew after each access.
    pub fn next_deadline(&self, now: &Moment) -> Option<Nanos> {
        if self.serial.interrupt() {
            return Some(now.since_start);
        }
        self.pit.as_ref()?.next_deadline()
    }

    /// An interrupt that is to be raised now, once; ask until there is none.
    pub fn due(&mut self, now: &Moment) -> Option<Interrupt> {
        if self.serial.take_interrupt() {
            return Some(Interrupt::Serial);
        }
        let edges = self.pit.as_mut()?.due(now)?;
        Some(Interrupt::Pit { edges })
    }

    /// What the guest has sent over the serial port since the last call.
    pub fn take_serial_output(&mut self) -> Vec<u8> {
        self.serial.take_output()
    }

    /// Bytes of serial output that were not taken in time.
    pub fn serial_lost_bytes(&self) -> u64 {
        self.serial.lost_bytes()
    }

    /// Accesses that nobody answered.
    pub fn strays(&self) -> &Strays {
        &self.strays
    }

    fn read_byte(&mut self, port: u16, now: &Moment) -> Option<u8> {
        if let Some(register) = Pit::register(port) {
            return self.pit.as_mut().map(|pit| pit.read(register, now));
        }
        match port {
            Rtc::PORT | Rtc::DATA_PORT => self.rtc.as_ref().map(|rtc| rtc.read(port, now)),
            _ => {
                match (offset_in(port, SerialPort::PORT, 8), offset_in(port, AcpiPmTimer::PORT, 4))
                {
                    (Some(register), _) => Some(self.serial.read(register)),
                    (_, Some(byte)) => {
                        let count = self.pm_timer?.read(now).to_le_bytes();
                        Some(count[usize::from(byte)])
                    }
                    _ => None,
                }
            }
        }
    }

    /// Whether there is a device, though it may ignore what is written.
    fn write_byte(&mut self, port: u16, value: u8, now: &Moment) -> bool {
        if let Some(register) = Pit::register(port) {
            return self.pit.as_mut().map(|pit| pit.write(register, value, now)).is_some();
        }
        match port {
            Rtc::PORT | Rtc::DATA_PORT => {
                self.rtc.as_mut().map(|rtc| rtc.write(port, value, now)).is_some()
            }
            _ => match offset_in(port, SerialPort::PORT, 8) {
                Some(register) => {
                    self.serial.write(register, value);
                    true
                }
                None => self.pm_timer.is_some() && offset_in(port, AcpiPmTimer::PORT, 4).is_some(),
            },
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

/// Where in the HPET an access lies that is wholly inside.
fn in_hpet(address: u64, bytes: usize) -> Option<u64> {
    let offset = address.checked_sub(Hpet::ADDRESS)?;
    let end = offset.checked_add(u64::try_from(bytes).ok()?)?;
    (end <= Hpet::BYTES).then_some(offset)
}

#[cfg(test)]
mod tests;
