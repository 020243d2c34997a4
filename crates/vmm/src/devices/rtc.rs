//! The MC146818 real-time clock and its memory. It has no interrupt line: the
//! three interrupt enables in status B read back as 0.

mod registers;

use pvclock::units::UnixTime;
use serde::{Deserialize, Serialize};

use super::Moment;
use registers::{B_24_HOURS, B_BINARY, TimeRegisters, slot_of};

const SECOND_NS: i128 = 1_000_000_000;
const YEAR_NS: i128 = 366 * 86_400 * SECOND_NS;
const REGISTERS: usize = 128;
/// Status A reports an update in progress for the last 8 cycles of the 32768 Hz
/// crystal before a new second (MC146818, t_BUC), as in QEMU.
const UPDATE_AHEAD_NS: i128 = 8 * SECOND_NS / 32_768;

const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const STATUS_C: u8 = 0x0c;
const STATUS_D: u8 = 0x0d;

const A_UPDATE_IN_PROGRESS: u8 = 0x80;
/// Divider 32768 Hz, and the rate of interrupts that are never raised.
const A_RESET: u8 = 0x26;
const B_SET: u8 = 0x80;
/// The implemented bits of status B: no interrupt, square wave or daylight saving.
const B_IMPLEMENTED: u8 = B_SET | B_BINARY | B_24_HOURS;
/// Status D: the battery is good.
const D_VALID: u8 = 0x80;

/// The clock's initial time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RtcSettings {
    /// How far it is ahead of UTC: 0 as Linux and servers expect, the zone's
    /// offset for local time as Windows expects.
    pub ahead_of_utc_s: i32,
}

impl RtcSettings {
    /// It shows UTC.
    pub const UTC: Self = Self { ahead_of_utc_s: 0 };
}

/// The device, which is its own saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtcChip {
    /// The register selected for the data port.
    index: u8,
    /// Status A, without the bit that only the time sets.
    status_a: u8,
    /// Status B.
    status_b: u8,
    /// Its time less the real time, ns: this keeps what a guest has set.
    ahead_ns: i128,
    /// The time registers while the clock is stopped, as the guest reads them.
    stopped: Option<[u8; 8]>,
    /// All other registers: 128.
    memory: Vec<u8>,
}

impl RtcChip {
    /// Selects a register (and masks NMI, which does not exist here).
    pub const PORT: u16 = 0x70;
    /// Reads and writes the register selected.
    pub const DATA_PORT: u16 = 0x71;

    /// In BCD and 24-hour mode, as a PC's firmware leaves it.
    pub fn new(settings: &RtcSettings) -> Self {
        Self {
            index: 0,
            status_a: A_RESET,
            status_b: B_24_HOURS,
            ahead_ns: i128::from(settings.ahead_of_utc_s) * SECOND_NS,
            stopped: None,
            memory: vec![0; REGISTERS],
        }
    }

    /// Whether a saved clock can be in this state: its date has four digits.
    pub(crate) fn is_possible(&self) -> bool {
        let years_20_000 = (20_000 * YEAR_NS).unsigned_abs();
        self.memory.len() == REGISTERS && self.ahead_ns.unsigned_abs() < years_20_000
    }

    /// Reads one of its two ports.
    pub fn read(&self, port: u16, now: &Moment) -> u8 {
        if port != Self::DATA_PORT {
            return 0xff; // The index cannot be read.
        }
        let index = self.index & 0x7f;
        match index {
            STATUS_A => self.status_a | self.update_in_progress(now),
            STATUS_B => self.status_b,
            STATUS_C => 0,
            STATUS_D => D_VALID,
            _ => match slot_of(index) {
                Some(slot) => self.reading(now).0[slot],
                None => self.memory[usize::from(index)],
            },
        }
    }

    /// Writes one of its two ports.
    pub fn write(&mut self, port: u16, value: u8, now: &Moment) {
        if port != Self::DATA_PORT {
            self.index = value & 0x7f;
            return;
        }
        let index = self.index & 0x7f;
        match index {
            STATUS_A => self.write_status_a(value & !A_UPDATE_IN_PROGRESS, now),
            STATUS_B => self.write_control(self.status_a, value & B_IMPLEMENTED, now),
            STATUS_C | STATUS_D => {}
            _ => match slot_of(index) {
                Some(slot) => self.write_time(slot, value, now),
                None => self.memory[usize::from(index)] = value,
            },
        }
    }

    /// Half a second after the divider's reset ends, the next second begins
    /// (MC146818, "divider control"): Linux sets the clock to the second by that.
    fn write_status_a(&mut self, value: u8, now: &Moment) {
        if divider_in_reset(self.status_a) && !divider_in_reset(value) {
            let phase = self.shown_ns(now).rem_euclid(SECOND_NS);
            self.ahead_ns = self.ahead_ns.saturating_add(SECOND_NS / 2 - phase);
        }
        self.write_control(value, self.status_b, now);
    }

    /// While SET is on or the divider is in reset the time is stopped and can be
    /// written; afterwards it continues from there, in the divider's phase.
    fn write_control(&mut self, status_a: u8, status_b: u8, now: &Moment) {
        let stop = divider_in_reset(status_a) || status_b & B_SET != 0;
        if stop && self.stopped.is_none() {
            self.stopped = Some(self.reading(now).0);
        }
        self.status_a = status_a;
        self.status_b = status_b;
        if !stop && let Some(registers) = self.stopped.take() {
            self.set(&TimeRegisters(registers), now);
        }
    }

    /// Written to a running clock, a register takes effect at once.
    fn write_time(&mut self, slot: usize, value: u8, now: &Moment) {
        let mut registers = self.reading(now);
        registers.0[slot] = value;
        match &mut self.stopped {
            Some(stopped) => *stopped = registers.0,
            None => self.set(&registers, now),
        }
    }

    fn set(&mut self, registers: &TimeRegisters, now: &Moment) {
        let shown = self.shown_ns(now).div_euclid(SECOND_NS);
        let step_ns = (registers.seconds(self.status_b) - shown).saturating_mul(SECOND_NS);
        self.ahead_ns = self.ahead_ns.saturating_add(step_ns);
    }

    fn reading(&self, now: &Moment) -> TimeRegisters {
        match self.stopped {
            Some(registers) => TimeRegisters(registers),
            None => {
                let seconds = self.shown_ns(now).div_euclid(SECOND_NS);
                TimeRegisters::from_seconds(seconds, self.status_b)
            }
        }
    }

    /// Its time since 1970, which a guest can set to anything.
    fn shown_ns(&self, now: &Moment) -> i128 {
        let UnixTime(real) = now.real;
        i128::from(real.0).saturating_add(self.ahead_ns)
    }

    fn update_in_progress(&self, now: &Moment) -> u8 {
        let left = SECOND_NS - self.shown_ns(now).rem_euclid(SECOND_NS);
        let soon = self.stopped.is_none() && left <= UPDATE_AHEAD_NS;
        u8::from(soon) * A_UPDATE_IN_PROGRESS
    }
}

/// Two of the divider's eight settings keep it in reset: 11x.
const fn divider_in_reset(status_a: u8) -> bool {
    status_a & 0x60 == 0x60
}

#[cfg(test)]
mod tests;
