//! The 8254 interval timer and the PC's gate for its third channel (Intel
//! 8254 data sheet, order 231164). It has no interrupt line: a guest uses it as
//! a clock only.

mod channel;

use super::{DeviceRate, Moment};
pub use channel::{ByteAccess, ChannelRun, PitChannel};

/// 105/88 MHz: a third of the colour subcarrier's 315/88.
pub(super) const RATE: DeviceRate = DeviceRate::new(105, 88_000);

/// The register that takes control words.
const CONTROL: u8 = 3;
/// Our number for port 0x61.
const GATE: u8 = 4;

const GATE_2: u8 = 0x01;
/// Port 0x61, the bits kept as written: gate, speaker, two checks' enables.
const GATE_KEPT: u8 = 0x0f;
const GATE_REFRESH: u8 = 0x10;
const GATE_OUTPUT_2: u8 = 0x20;

/// A PC refreshes its memory every 18 ticks, 15 µs.
const REFRESH_TICKS: u16 = 18;
const MODE_RATE: u8 = 2;

/// The device, which is its own saved state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pit {
    /// Timer, memory refresh, speaker.
    channels: [PitChannel; 3],
    /// The bits kept of port 0x61.
    gate: u8,
}

impl Pit {
    /// Channels 0 to 2, then the control word.
    pub const PORT: u16 = 0x40;
    /// Channel 2's gate and output.
    pub const GATE_PORT: u16 = 0x61;

    /// The register behind a port.
    pub fn register(port: u16) -> Option<u8> {
        match port {
            0x40..=0x43 => Some((port - Self::PORT) as u8),
            Self::GATE_PORT => Some(GATE),
            _ => None,
        }
    }

    /// Reads a register.
    pub fn read(&mut self, register: u8, now: &Moment) -> u8 {
        let tick = RATE.ticks(now.since_start);
        match register {
            0..=2 => self.channels[usize::from(register)].read(tick),
            GATE => {
                let [_, refresh, speaker] = &self.channels;
                let toggled = if refresh.edges(tick) % 2 == 1 { GATE_REFRESH } else { 0 };
                let output = if speaker.output(tick) { GATE_OUTPUT_2 } else { 0 };
                self.gate | toggled | output
            }
            _ => 0xff, // The control word cannot be read.
        }
    }

    /// Writes a register.
    pub fn write(&mut self, register: u8, value: u8, now: &Moment) {
        let tick = RATE.ticks(now.since_start);
        match register {
            0..=2 => self.channels[usize::from(register)].write(value, tick),
            CONTROL => self.control(value, tick),
            GATE => {
                self.channels[2].set_gate(value & GATE_2 != 0, tick);
                self.gate = value & GATE_KEPT;
            }
            _ => {}
        }
    }

    /// A control word programs one channel, or reads several back.
    fn control(&mut self, word: u8, tick: u64) {
        let selected = word >> 6;
        if selected < CONTROL {
            return self.channels[usize::from(selected)].control(word, tick);
        }
        for (i, channel) in self.channels.iter_mut().enumerate() {
            if word & 2 << i != 0 {
                channel.read_back(word, tick);
            }
        }
    }
}

impl Default for Pit {
    /// Only memory refresh runs, as before firmware programs the rest.
    fn default() -> Self {
        let mut channels = [PitChannel::new(true), PitChannel::new(true), PitChannel::new(false)];
        channels[1] = PitChannel::counting(MODE_RATE, REFRESH_TICKS);
        Self { channels, gate: 0 }
    }
}

#[cfg(test)]
mod tests;
