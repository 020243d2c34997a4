use super::*;
use crate::devices::rtc::B_SET;

const MODES: [u8; 4] = [0, B_BINARY, B_24_HOURS, B_BINARY | B_24_HOURS];

#[test]
fn every_second_of_a_day_comes_back() {
    let midnight = calendar::days(2024, 2, 29) * DAY_S;
    for mode in MODES {
        let mut shown_before = None;
        for second in 0..=DAY_S {
            let shown = TimeRegisters::from_seconds(midnight + second, mode);
            assert_eq!(shown.seconds(mode), midnight + second, "{shown:x?} in mode {mode:#x}");
            assert_ne!(shown_before.replace(shown), Some(shown));
        }
    }
}

#[test]
fn every_day_of_four_centuries_comes_back() {
    for day in calendar::days(1900, 1, 1)..calendar::days(2300, 1, 1) {
        for mode in MODES {
            let noon = day * DAY_S + 43_200;
            assert_eq!(
                TimeRegisters::from_seconds(noon, mode).seconds(mode),
                noon,
                "{day} in mode {mode:#x}"
            );
        }
    }
}

#[test]
fn a_time_in_each_mode() {
    // Saturday 2026-11-21 15:04:59.
    let time = calendar::days(2026, 11, 21) * DAY_S + 15 * 3600 + 4 * 60 + 59;
    for (mode, expected) in [
        (B_24_HOURS, [0x59, 0x04, 0x15, 7, 0x21, 0x11, 0x26, 0x20]),
        (0, [0x59, 0x04, 0x83, 7, 0x21, 0x11, 0x26, 0x20]),
        (B_BINARY | B_24_HOURS, [59, 4, 15, 7, 21, 11, 26, 20]),
        (B_BINARY, [59, 4, 0x83, 7, 21, 11, 26, 20]),
    ] {
        assert_eq!(TimeRegisters::from_seconds(time, mode).0, expected, "mode {mode:#x}");
        assert_eq!(
            TimeRegisters::from_seconds(time, mode | B_SET).0,
            expected,
            "mode {mode:#x} and SET"
        );
    }
}

#[test]
fn the_dial_of_twelve_hours_begins_with_twelve() {
    for (hour, bcd, binary) in [
        (0, 0x12, 12),
        (1, 0x01, 1),
        (11, 0x11, 11),
        (12, 0x92, 0x80 | 12),
        (13, 0x81, 0x81),
        (23, 0x91, 0x80 | 11),
    ] {
        assert_eq!(TimeRegisters::from_seconds(hour * 3600, 0).0[2], bcd, "{hour} h");
        assert_eq!(TimeRegisters::from_seconds(hour * 3600, B_BINARY).0[2], binary, "{hour} h");
    }
}

#[test]
fn what_is_no_date_means_one_nearby() {
    // 30 February 2023, 25:61:61.
    let odd = TimeRegisters([0x61, 0x61, 0x25, 9, 0x30, 0x02, 0x23, 0x20]);
    let meant = calendar::days(2023, 3, 2) * DAY_S + 25 * 3600 + 61 * 60 + 61;
    assert_eq!(odd.seconds(B_24_HOURS), meant);
    for mode in MODES {
        let extreme = TimeRegisters([0xff; 8]).seconds(mode);
        assert!(extreme > calendar::days(9999, 1, 1) * DAY_S, "{extreme}");
    }
}
