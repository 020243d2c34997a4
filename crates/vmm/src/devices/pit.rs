//! The 8254 interval timer and the PC's gate for its third channel (Intel
//! 8254 data sheet, order 231164).

mod channel;

use pvclock::Nanos;

use super::{MIN_PERIOD, Moment, Rate};
pub use channel::{Access, Channel, Run};

/// 105/88 MHz: a third of the colour subcarrier's 315/88.
pub(super) const RATE: Rate = Rate::new(105, 88_000);

/// The register that takes control words.
const CONTROL: u8 = 3;
/// Our number for port 0x61.
const GATE: u8 = 4;

const GATE_2: u8 = 0x01;
/// Port 0x61: what is kept as written: gate, speaker, two checks' enables.
const GATE_KEPT: u8 = 0x0f;
const GATE_REFRESH: u8 = 0x10;
const GATE_OUTPUT_2: u8 = 0x20;

/// A PC refreshes its memory every 18 ticks, 15 µs.
const REFRESH_TICKS: u16 = 18;
const MODE_RATE: u8 = 2;

/// What of it is saved, and all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PitState {
    /// Timer, memory refresh, speaker.
    pub channels: [Channel; 3],
    /// What was written to port 0x61, as far as it is kept.
    pub barrier: u8,
    /// Edges of channel 0 that were given to the machine already.
    pub edges_taken: u64,
    /// When the last were.
    pub last_taken: Option<Nanos>,
}

/// The device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pit {
    state: PitState,
}

impl Pit {
    /// Channels 0 to 2, then the control word.
    pub const PORT: u16 = 0x40;
    /// Channel 2's gate and output.
    pub const GATE_PORT: u16 = 0x61;

    /// Only memory refresh runs, as before a firmware programs the rest.
    pub fn new() -> Self {
        let mut channels = [Channel::new(true), Channel::new(true), Channel::new(false)];
        channels[1] = Channel::counting(MODE_RATE, REFRESH_TICKS);
        Self::restore(PitState { channels, barrier: 0, edges_taken: 0, last_taken: None })
    }

    /// As it was saved.
    pub const fn restore(state: PitState) -> Self {
        Self { state }
    }

    /// What to restore it from.
    pub const fn save(&self) -> PitState {
        self.state
    }

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
            0..=2 => self.state.channels[usize::from(register)].read(tick),
            GATE => {
                let [_, refresh, speaker] = &self.state.channels;
                let toggled = if refresh.edges(tick) % 2 == 1 { GATE_REFRESH } else { 0 };
                let output = if speaker.output(tick) { GATE_OUTPUT_2 } else { 0 };
                self.state.barrier | toggled | output
            }
            _ => 0xff, // The control word cannot be read.
        }
    }

    /// Writes a register.
    pub fn write(&mut self, register: u8, value: u8, now: &Moment) {
        let tick = RATE.ticks(now.since_start);
        match register {
            0..=2 => self.program(register, |channel| channel.write(value, tick)),
            CONTROL => self.control(value, tick),
            GATE => {
                self.state.channels[2].set_barrier(value & GATE_2 != 0, tick);
                self.state.barrier = value & GATE_KEPT;
            }
            _ => {}
        }
    }

    /// When channel 0's output rises next. A period shorter than
    /// [`MIN_PERIOD`] lets edges gather meanwhile.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let channel = &self.state.channels[0];
        let edge = RATE.first_at(channel.edge(self.state.edges_taken.saturating_add(1))?);
        let not_before = match self.state.last_taken {
            Some(last) if channel.is_periodic() => Nanos(last.0.saturating_add(MIN_PERIOD.0)),
            _ => Nanos(0),
        };
        Some(edge.max(not_before))
    }

    /// How often channel 0's output has risen since this was asked last, when
    /// it has and the deadline has come.
    pub fn due(&mut self, now: &Moment) -> Option<u64> {
        if self.next_deadline()? > now.since_start {
            return None;
        }
        let edges = self.state.channels[0].edges(RATE.ticks(now.since_start));
        let fresh = edges.checked_sub(self.state.edges_taken).filter(|fresh| *fresh > 0)?;
        self.state.edges_taken = edges;
        self.state.last_taken = Some(now.since_start);
        Some(fresh)
    }

    /// A control word is for one channel, or reads several back.
    fn control(&mut self, word: u8, tick: u64) {
        let selected = word >> 6;
        if selected < CONTROL {
            return self.program(selected, |channel| channel.control(word, tick));
        }
        for (i, channel) in self.state.channels.iter_mut().enumerate() {
            if word & 2 << i != 0 {
                channel.read_back(word, tick);
            }
        }
    }

    /// A channel 0 that begins anew has its edges counted anew.
    fn program(&mut self, channel: u8, write: impl FnOnce(&mut Channel)) {
        let programmed = &mut self.state.channels[usize::from(channel)];
        let before = programmed.run;
        write(programmed);
        if channel == 0 && programmed.run != before {
            self.state.edges_taken = 0;
        }
    }
}

impl Default for Pit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
