//! The CMOS real-time clock.

use pvclock::counter::Counter;

use crate::hardware::Hardware;
use pvclock::units::calendar;

const INDEX: u16 = 0x70;
const DATA: u16 = 0x71;
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const CENTURY: u8 = 0x32;
const UPDATING: u8 = 0x80;
const BINARY: u8 = 4;
const HOURS_24: u8 = 2;

/// Register reads in which the second must change: QEMU's software emulation
/// makes ten million a second.
const TRIES: u32 = 50_000_000;
/// The same in TSC cycles, for hosts where each read is a long exit: 2 s at 8 GHz.
const CYCLES: u64 = 1 << 34;

fn register(hardware: &impl Hardware, index: u8) -> u8 {
    hardware.port_write_8(INDEX, index);
    hardware.port_read_8(DATA)
}

/// Whether there is one: an absent device reads as ones.
pub fn is_there(hardware: &impl Hardware) -> bool {
    register(hardware, STATUS_B) != 0xff
}

/// The moment at which a second began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondEdge {
    /// The second, since 1970, in the clock's own zone.
    pub seconds: u64,
    /// The TSC before the last read that returned the second before.
    pub before: u64,
    /// The TSC after the first read that returned this one.
    pub after: u64,
}

/// Waits until the second changes; `None` where it does not change.
pub fn next_second(hardware: &impl Hardware) -> Option<SecondEdge> {
    hardware.port_write_8(INDEX, 0);
    // The index register keeps its value: one exit a try.
    let second = || hardware.port_read_8(DATA);
    let (before, after) = change(|| hardware.counter().read_ordered(), second)?;
    Some(SecondEdge { seconds: settled(hardware)?, before, after })
}

/// The counter before the last read of the old second, and after the first of the
/// new one. A read may be long: the vCPU can lose its CPU between the moment that
/// the device shows and the return.
fn change(counter: impl Fn() -> u64, second: impl Fn() -> u8) -> Option<(u64, u64)> {
    let start = counter();
    let first = second();
    let mut before = start;
    for _ in 0..TRIES {
        let looks = counter();
        if second() != first {
            return Some((before, counter()));
        }
        if looks.wrapping_sub(start) >= CYCLES {
            break;
        }
        before = looks;
    }
    None
}

/// The time, read while no update is in progress and twice the same. An
/// update takes 2 ms (MC146818 data sheet), thousands of such cheap reads.
fn settled(hardware: &impl Hardware) -> Option<u64> {
    let mut last = None;
    for _ in 0..1_000_000 {
        if register(hardware, STATUS_A) & UPDATING != 0 {
            continue;
        }
        let now = [0, 2, 4, 7, 8, 9, CENTURY].map(|index| register(hardware, index));
        if last == Some(now) {
            return seconds(now, register(hardware, STATUS_B));
        }
        last = Some(now);
    }
    None
}

/// Registers to seconds since 1970; `None` but for BCD and 24 hours, as firmware leaves it.
fn seconds(registers: [u8; 7], status_b: u8) -> Option<u64> {
    let [second, minute, hour, day, month, year, century] = registers;
    if status_b & (BINARY | HOURS_24) != HOURS_24 {
        return None;
    }
    let plain = |digits: u8| u64::from(digits >> 4) * 10 + u64::from(digits & 15);
    let century = match plain(century) {
        century @ 19..=25 => century,
        _ => 20,
    };
    let days = days_since_1970(century * 100 + plain(year), plain(month), plain(day))?;
    Some(((days * 24 + plain(hour)) * 60 + plain(minute)) * 60 + plain(second))
}

/// `None` where the registers hold no date.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    calendar::days(year.into(), month.into(), day.into()).try_into().ok()
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// The device shows the second of cycle 1000 from then on; a read takes 10 cycles,
    /// but one of them 500 more, after the device was asked.
    #[test]
    fn a_second_begins_between_the_two_readings_whichever_read_was_interrupted() {
        for slow in 0..20 {
            let (now, reads) = (Cell::new(900), Cell::new(0));
            let counter = || now.replace(now.get() + 1);
            let second = || {
                let shown = u8::from(now.get() >= 1000);
                now.set(now.get() + if reads.get() == slow { 510 } else { 10 });
                reads.set(reads.get() + 1);
                shown
            };
            let (before, after) = change(counter, second).unwrap();
            assert!(before <= 1000 && 1000 <= after, "read {slow}: {before} to {after}");
        }
        // A clock that stands.
        let now = Cell::new(0);
        assert_eq!(change(|| now.replace(now.get() + CYCLES / 4), || 7), None);
    }

    #[test]
    fn registers_are_a_date() {
        // 2026-11-21 07:33:07 UTC, according to date(1).
        let bcd = [0x07, 0x33, 0x07, 0x21, 0x11, 0x26, 0x20];
        assert_eq!(seconds(bcd, HOURS_24), Some(1_795_246_387));
        for other in [0, BINARY, HOURS_24 | BINARY] {
            assert_eq!(seconds(bcd, other), None);
        }
        assert_eq!(seconds([0, 0, 0, 0, 0x11, 0x26, 0x20], HOURS_24), None);
    }
}
