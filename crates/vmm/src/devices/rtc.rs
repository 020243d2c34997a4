//! The MC146818 real-time clock, in UTC, BCD and 24 hours, as servers' firmware leaves it. It
//! shows the host's time and cannot be set: writes but to its index change nothing. It has no
//! interrupt line.

use pvclock::units::calendar::{self, Date};

use super::Moment;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;
/// Status A reports an update in progress for the last 8 cycles of the 32768 Hz
/// crystal before a new second (MC146818, t_BUC), as in QEMU.
const UPDATE_AHEAD_NS: u64 = 8 * SECOND_NS / 32_768;

const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const STATUS_D: u8 = 0x0d;

const A_UPDATE_IN_PROGRESS: u8 = 0x80;
/// Divider 32768 Hz, and the rate of interrupts that are never raised.
const A_RESET: u8 = 0x26;
const B_24_HOURS: u8 = 0x02;
/// Status D: the battery is good.
const D_VALID: u8 = 0x80;

/// Which register shows second, minute, hour, weekday, day, month, year, century.
const OF_TIME: [u8; 8] = [0x00, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, 0x32];

/// The device, which is its own saved state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RtcChip {
    /// The register selected for the data port.
    index: u8,
}

impl RtcChip {
    /// Selects a register (and masks NMI, which does not exist here).
    pub const PORT: u16 = 0x70;
    /// Reads the register selected.
    pub const DATA_PORT: u16 = 0x71;

    /// Reads one of its two ports.
    pub fn read(&self, port: u16, now: &Moment) -> u8 {
        if port != Self::DATA_PORT {
            return 0xff; // The index cannot be read.
        }
        let ns = now.real.0.0;
        match self.index {
            STATUS_A if SECOND_NS - ns % SECOND_NS <= UPDATE_AHEAD_NS => {
                A_RESET | A_UPDATE_IN_PROGRESS
            }
            STATUS_A => A_RESET,
            STATUS_B => B_24_HOURS,
            STATUS_D => D_VALID,
            index => {
                let slot = OF_TIME.iter().position(|of_time| *of_time == index);
                slot.map_or(0, |slot| registers(ns / SECOND_NS)[slot])
            }
        }
    }

    /// Writes one of its two ports.
    pub fn write(&mut self, port: u16, value: u8) {
        if port == Self::PORT {
            self.index = value & 0x7f;
        }
    }
}

/// The registers of time `seconds` after 1970.
fn registers(seconds: u64) -> [u8; 8] {
    let (days, second_of_day) = (i128::from(seconds / DAY_S), (seconds % DAY_S) as u32);
    let Date { year, month, day } = calendar::date(days);
    let year = year.rem_euclid(10_000) as u32;
    let (minute, hour) = (second_of_day / 60 % 60, second_of_day / 3600);
    let weekday = calendar::weekday(days);
    [second_of_day % 60, minute, hour, weekday, day, month, year % 100, year / 100]
        .map(|value| (value / 10 * 16 + value % 10) as u8)
}

#[cfg(test)]
mod tests;
