use pvclock::Nanos;

use super::*;

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 15:04:05 UTC.
const TIME: u64 = 1_795_273_445 * SECOND;

fn get(rtc: &mut RtcChip, register: u8, ns: u64) -> u8 {
    rtc.write(RtcChip::PORT, register, &at(ns));
    rtc.read(RtcChip::DATA_PORT, &at(ns))
}

fn put(rtc: &mut RtcChip, register: u8, value: u8, ns: u64) {
    rtc.write(RtcChip::PORT, register, &at(ns));
    rtc.write(RtcChip::DATA_PORT, value, &at(ns));
}

/// The real time, while the machine's own says something else.
fn at(ns: u64) -> Moment {
    Moment { since_start: Nanos(77), ..Moment::from_ns(ns) }
}

fn date_and_time(rtc: &mut RtcChip, ns: u64) -> [u8; 7] {
    [0x32, 9, 8, 7, 4, 2, 0].map(|register| get(rtc, register, ns))
}

#[test]
fn it_shows_utc_or_local_time() {
    let mut utc = RtcChip::new(&RtcSettings::UTC);
    assert_eq!(date_and_time(&mut utc, TIME), [0x20, 0x26, 0x11, 0x21, 0x15, 0x04, 0x05]);
    assert_eq!(get(&mut utc, 6, TIME), 7, "Saturday");
    let mut east = RtcChip::new(&RtcSettings { ahead_of_utc_s: 9 * 3600 });
    assert_eq!(date_and_time(&mut east, TIME), [0x20, 0x26, 0x11, 0x22, 0x00, 0x04, 0x05]);
    let mut west = RtcChip::new(&RtcSettings { ahead_of_utc_s: -16 * 3600 });
    assert_eq!(date_and_time(&mut west, TIME), [0x20, 0x26, 0x11, 0x20, 0x23, 0x04, 0x05]);
    let mut before = RtcChip::new(&RtcSettings { ahead_of_utc_s: -1 });
    assert_eq!(date_and_time(&mut before, 0), [0x19, 0x69, 0x12, 0x31, 0x23, 0x59, 0x59]);
}

#[test]
fn an_update_announces_itself() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    // 244.140625 µs, and time comes in whole ns.
    for (before_ns, in_progress) in [(244_141, false), (244_140, true), (1, true), (0, false)] {
        let status = get(&mut rtc, STATUS_A, TIME + SECOND - before_ns);
        assert_eq!(status, if in_progress { 0xa6 } else { 0x26 }, "{before_ns} ns before");
    }
    assert_eq!(get(&mut rtc, 0, TIME + SECOND - 1), 0x05, "the old second until then");
    put(&mut rtc, STATUS_B, B_SET | B_24_HOURS, TIME);
    assert_eq!(get(&mut rtc, STATUS_A, TIME + SECOND - 1), 0x26, "none while SET is on");
}

#[test]
fn status_says_what_there_is() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    assert_eq!(get(&mut rtc, STATUS_B, TIME), B_24_HOURS);
    put(&mut rtc, STATUS_B, 0x7f, TIME);
    assert_eq!(get(&mut rtc, STATUS_B, TIME), B_24_HOURS | B_BINARY, "no interrupts");
    assert_eq!((get(&mut rtc, STATUS_C, TIME), get(&mut rtc, STATUS_D, TIME)), (0, 0x80));
    assert_eq!(rtc.read(RtcChip::PORT, &at(TIME)), 0xff);
    put(&mut rtc, 0xb3, 0x5a, TIME);
    assert_eq!(get(&mut rtc, 0x33, TIME), 0x5a, "memory, NMI masked or not");
}

#[test]
fn the_mode_changes_what_a_running_clock_shows() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    for (mode, hour) in [(0, 0x83), (B_BINARY, 0x83), (B_BINARY | B_24_HOURS, 15)] {
        put(&mut rtc, STATUS_B, mode, TIME);
        assert_eq!(get(&mut rtc, 4, TIME), hour, "mode {mode:#x}");
    }
}

#[test]
fn what_is_set_under_set_goes_on_in_the_same_phase() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    let half = TIME + SECOND / 2;
    put(&mut rtc, STATUS_B, B_SET | B_24_HOURS, half);
    for (register, value) in [(0x32, 0x19), (9, 0x99), (8, 0x12), (7, 0x31), (4, 0x23), (2, 0x59)] {
        put(&mut rtc, register, value, half);
    }
    put(&mut rtc, 0, 0x58, half);
    let later = half + 10 * SECOND;
    assert_eq!(date_and_time(&mut rtc, later), [0x19, 0x99, 0x12, 0x31, 0x23, 0x59, 0x58]);
    put(&mut rtc, STATUS_B, B_24_HOURS, later);
    assert_eq!(get(&mut rtc, 0, later + SECOND / 2 - 1), 0x58);
    assert_eq!(get(&mut rtc, 0, later + SECOND / 2), 0x59);
    let new_year = later + SECOND + SECOND / 2;
    assert_eq!(date_and_time(&mut rtc, new_year), [0x20, 0x00, 0x01, 0x01, 0x00, 0x00, 0x00]);
    let year_ns = 366 * 86_400 * SECOND;
    assert_eq!(date_and_time(&mut rtc, new_year + year_ns)[..2], [0x20, 0x01], "an offset is kept");
}

#[test]
fn a_divider_let_go_begins_half_a_second_later() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    let now = TIME + 123_456_789;
    // The order in which Linux does it (drivers/rtc/rtc-mc146818-lib.c).
    put(&mut rtc, STATUS_B, B_SET | B_24_HOURS, now);
    put(&mut rtc, STATUS_A, 0x76, now);
    put(&mut rtc, 0, 0x30, now);
    put(&mut rtc, STATUS_B, B_24_HOURS, now + 10);
    assert_eq!(get(&mut rtc, 0, now + 5 * SECOND), 0x30, "the divider is held");
    let released = now + 5 * SECOND;
    put(&mut rtc, STATUS_A, 0x26, released);
    assert_eq!(get(&mut rtc, 0, released + SECOND / 2 - 1), 0x30);
    assert_eq!(get(&mut rtc, 0, released + SECOND / 2), 0x31);
    assert_eq!(get(&mut rtc, STATUS_A, released + SECOND / 2 - 1), 0xa6);
}

#[test]
fn a_running_clock_is_set_register_by_register() {
    let mut rtc = RtcChip::new(&RtcSettings::UTC);
    put(&mut rtc, 4, 0x23, TIME);
    put(&mut rtc, 0x32, 0x21, TIME);
    put(&mut rtc, 6, 0x03, TIME);
    assert_eq!(date_and_time(&mut rtc, TIME), [0x21, 0x26, 0x11, 0x21, 0x23, 0x04, 0x05]);
    assert_eq!(get(&mut rtc, 6, TIME), 5, "the weekday follows from the date");
}

#[test]
fn any_offset_that_was_saved_is_a_time() {
    for ahead_ns in [i128::MIN, i128::MAX] {
        let mut rtc = RtcChip { ahead_ns, ..RtcChip::new(&RtcSettings::UTC) };
        for register in 0..=0x7f {
            put(&mut rtc, register, 0xff, u64::MAX);
            get(&mut rtc, register, u64::MAX);
            put(&mut rtc, STATUS_B, 0, u64::MAX);
        }
    }
}
