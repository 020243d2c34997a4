//! The registers that show the time: BCD or binary, 12 or 24 hours.

use pvclock::units::calendar::{self, Date};

/// Status B: the registers are binary; hours count to 24.
pub(super) const B_BINARY: u8 = 0x04;
pub(super) const B_24_HOURS: u8 = 0x02;

const DAY_S: i128 = 86_400;
/// In 12-hour mode bit 7 of the hour is PM.
const PM: u8 = 0x80;

/// Which register each slot is: second, minute, hour, weekday, day, month,
/// year, century.
const REGISTERS: [u8; 8] = [0x00, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, 0x32];

/// The slot that a register has in [`TimeRegisters`], if it shows time.
pub(super) fn slot_of(register: u8) -> Option<usize> {
    REGISTERS.iter().position(|of_time| *of_time == register)
}

/// Their contents, in the order of [`REGISTERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeRegisters(pub(super) [u8; 8]);

impl TimeRegisters {
    /// Their contents `seconds` after 1970, in the mode of status B.
    pub(super) fn from_seconds(seconds: i128, status_b: u8) -> Self {
        let days = seconds.div_euclid(DAY_S);
        let second_of_day = seconds.rem_euclid(DAY_S) as u32;
        let Date { year, month, day } = calendar::date(days);
        let year = year.rem_euclid(10_000) as u32;
        let encoded = |value: u32| encode(value as u8, status_b);
        Self([
            encoded(second_of_day % 60),
            encoded(second_of_day / 60 % 60),
            encode_hour((second_of_day / 3600) as u8, status_b),
            encoded(calendar::weekday(days)),
            encoded(day),
            encoded(month),
            encoded(year % 100),
            encoded(year / 100),
        ])
    }

    /// Their time in seconds after 1970, in the mode of status B. Fields out of
    /// range carry, as in `mktime`, so the clock continues near what was written.
    /// The weekday follows from the date.
    pub(super) fn seconds(&self, status_b: u8) -> i128 {
        let [second, minute, hour, _, day, month, year, century] = self.0;
        let value = |raw| i128::from(decode(raw, status_b));
        let date_days =
            calendar::days(value(century) * 100 + value(year), value(month), value(day));
        let hour = i128::from(decode_hour(hour, status_b));
        date_days * DAY_S + hour * 3600 + value(minute) * 60 + value(second)
    }
}

fn encode(value: u8, status_b: u8) -> u8 {
    if status_b & B_BINARY != 0 { value } else { value / 10 * 16 + value % 10 }
}

/// Digits above 9 keep their value: 0x1f is 25.
fn decode(raw: u8, status_b: u8) -> u8 {
    if status_b & B_BINARY != 0 { raw } else { (raw >> 4) * 10 + (raw & 0xf) }
}

fn encode_hour(hour: u8, status_b: u8) -> u8 {
    if status_b & B_24_HOURS != 0 {
        return encode(hour, status_b);
    }
    let afternoon = u8::from(hour >= 12) * PM;
    let on_the_dial = (hour + 11) % 12 + 1;
    encode(on_the_dial, status_b) | afternoon
}

fn decode_hour(raw: u8, status_b: u8) -> u8 {
    if status_b & B_24_HOURS != 0 {
        return decode(raw, status_b);
    }
    let afternoon = u8::from(raw & PM != 0) * 12;
    decode(raw & !PM, status_b) % 12 + afternoon
}

#[cfg(test)]
mod tests;
