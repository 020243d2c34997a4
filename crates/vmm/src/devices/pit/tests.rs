use pvclock::Nanos;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn write(pit: &mut Pit, register: u8, values: &[u8], ns: u64) {
    values.iter().for_each(|value| pit.write(register, *value, &Moment::from_ns(ns)));
}

/// A timer as Linux programs it: mode 2, low byte, high byte.
fn ticking(count: u16) -> Pit {
    let mut pit = Pit::default();
    write(&mut pit, CONTROL, &[0x34], 0);
    write(&mut pit, 0, &count.to_le_bytes(), 0);
    pit
}

#[test]
fn a_third_of_the_colour_subcarrier() {
    assert_eq!(RATE.ticks(Nanos(SECOND)), 1_193_181);
    assert_eq!(RATE.ticks(Nanos(88 * SECOND)), 105_000_000);
    for tick in [0, 1, 2, 17, 1_193_182, 105_000_000] {
        let first = RATE.first_at(tick);
        assert_eq!(RATE.ticks(first), tick);
        assert!(tick == 0 || RATE.ticks(Nanos(first.0 - 1)) == tick - 1);
    }
}

#[test]
fn linux_measures_its_tsc_by_channel_2() {
    let mut pit = Pit::default();
    // arch/x86/kernel/tsc.c, pit_calibrate_tsc: gate on, mode 0, 10 ms.
    write(&mut pit, GATE, &[0x01], 1_000);
    write(&mut pit, CONTROL, &[0xb0], 1_000);
    write(&mut pit, 2, &11_932_u16.to_le_bytes(), 1_000);
    let done = RATE.first_at(RATE.ticks(Nanos(1_000)) + 1 + 11_932);
    assert!((10_000_000..10_003_000).contains(&done.0), "{done}");
    assert_eq!(pit.read(GATE, &Moment::from_ns(done.0 - 1)) & GATE_OUTPUT_2, 0);
    assert_eq!(pit.read(GATE, &Moment::from_ns(done.0)) & GATE_OUTPUT_2, GATE_OUTPUT_2);
}

#[test]
fn the_refresh_toggles_every_18_ticks() {
    let mut pit = Pit::default();
    let refresh = |pit: &mut Pit, tick: u64| {
        pit.read(GATE, &Moment::from_ns(RATE.first_at(tick).0)) & GATE_REFRESH != 0
    };
    let seen = [0, 17, 18, 35, 36].map(|tick| refresh(&mut pit, tick));
    assert_eq!(seen, [false, false, true, true, false]);
}

#[test]
fn several_channels_are_read_back_at_once() {
    let mut pit = ticking(0x100);
    write(&mut pit, CONTROL, &[0xb6], 0);
    write(&mut pit, CONTROL, &[0xea], 0);
    let now = Moment::from_ns(0);
    assert_eq!((pit.read(0, &now), pit.read(2, &now)), (0xb4, 0xf6));
    assert_eq!(pit.read(CONTROL, &now), 0xff);
}
