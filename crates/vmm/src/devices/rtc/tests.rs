use pvclock::Nanos;

use super::*;

const SECOND: u64 = SECOND_NS;
/// 2026-11-21 15:04:05 UTC.
const TIME: u64 = 1_795_273_445 * SECOND;

fn get(rtc: &mut RtcChip, register: u8, ns: u64) -> u8 {
    rtc.write(RtcChip::PORT, register);
    rtc.read(RtcChip::DATA_PORT, &at(ns))
}

/// The real time, while the machine's own says something else.
fn at(ns: u64) -> Moment {
    Moment { since_start: Nanos(77), ..Moment::from_ns(ns) }
}

fn date_and_time(rtc: &mut RtcChip, ns: u64) -> [u8; 7] {
    [0x32, 9, 8, 7, 4, 2, 0].map(|register| get(rtc, register, ns))
}

#[test]
fn it_shows_utc() {
    let mut rtc = RtcChip::default();
    assert_eq!(date_and_time(&mut rtc, TIME), [0x20, 0x26, 0x11, 0x21, 0x15, 0x04, 0x05]);
    assert_eq!(get(&mut rtc, 6, TIME), 7, "Saturday");
    assert_eq!(date_and_time(&mut rtc, 0), [0x19, 0x70, 0x01, 0x01, 0, 0, 0]);
    date_and_time(&mut rtc, u64::MAX);
}

#[test]
fn an_update_announces_itself() {
    let mut rtc = RtcChip::default();
    // 244.140625 µs, and time comes in whole ns.
    for (before_ns, in_progress) in [(244_141, false), (244_140, true), (1, true), (0, false)] {
        let status = get(&mut rtc, STATUS_A, TIME + SECOND - before_ns);
        assert_eq!(status, if in_progress { 0xa6 } else { 0x26 }, "{before_ns} ns before");
    }
    assert_eq!(get(&mut rtc, 0, TIME + SECOND - 1), 0x05, "the old second until then");
}

#[test]
fn it_cannot_be_set() {
    let mut rtc = RtcChip::default();
    for register in 0..=0xff {
        let before = get(&mut rtc, register, TIME);
        rtc.write(RtcChip::DATA_PORT, 0x5a);
        assert_eq!(get(&mut rtc, register, TIME), before, "{register:#x}");
    }
    let status = [STATUS_B, 0x0c, STATUS_D].map(|status| get(&mut rtc, status, TIME));
    assert_eq!((status, rtc.read(RtcChip::PORT, &at(TIME))), ([B_24_HOURS, 0, 0x80], 0xff));
}

#[test]
fn every_second_of_a_day_and_every_day_of_four_centuries_is_its_own() {
    let seconds = |[second, minute, hour, _, day, month, year, century]: [u8; 8]| {
        let value = |digits: u8| i128::from(digits >> 4) * 10 + i128::from(digits & 0xf);
        let years = value(century) * 100 + value(year);
        let days = calendar::days(years, value(month), value(day));
        days as u64 * DAY_S + (value(hour) * 3600 + value(minute) * 60 + value(second)) as u64
    };
    let midnight = calendar::days(2024, 2, 29) as u64 * DAY_S;
    for second in midnight..=midnight + DAY_S {
        assert_eq!(seconds(registers(second)), second);
    }
    for day in 0..calendar::days(2370, 1, 1) as u64 {
        assert_eq!(seconds(registers(day * DAY_S + 43_200)), day * DAY_S + 43_200, "{day}");
    }
}
