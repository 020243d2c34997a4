use pvclock::Ticks;

use super::*;

const TSC_DEADLINE: u32 = 0x6e0;
const EOI: u32 = 0x80b;
const SPURIOUS: u32 = 0x80f;
const LVT: u32 = 0x832;
const INITIAL: u32 = 0x838;
const CURRENT: u32 = 0x839;
const DIVIDE: u32 = 0x83e;
const PERIODIC: u64 = 1 << 17;
const BY_TSC: u64 = 1 << 18;

/// A bus of 1 GHz, a TSC of 2, switched on, dividing by 1.
fn timer(lvt: u64) -> LocalTimer {
    let mut timer = LocalTimer::new(3, Hertz(1_000_000_000), Hertz(2_000_000_000));
    for (msr, value) in [(SPURIOUS, 0x1ff), (DIVIDE, 0xb), (LVT, lvt)] {
        write(&mut timer, msr, value, 0);
    }
    timer
}

fn write(timer: &mut LocalTimer, msr: u32, value: u64, ns: u64) {
    assert_eq!(timer.write_msr(msr, value, &at(ns)), Ok(()), "{value:#x} to {msr:#x}");
}

fn read(timer: &mut LocalTimer, msr: u32, ns: u64) -> u64 {
    timer.read_msr(msr, &at(ns)).expect("it can be read")
}

fn at(ns: u64) -> Moment {
    Moment { guest_tsc: Ticks(ns * 2), ..Moment::at(ns) }
}

#[test]
fn one_shot_counts_down_and_fires_once() {
    let mut timer = timer(0x40);
    write(&mut timer, INITIAL, 1_000, 500);
    assert_eq!(timer.deadline(&at(500)), Some(Nanos(1_500)));
    assert_eq!((read(&mut timer, CURRENT, 500), read(&mut timer, CURRENT, 501)), (1_000, 999));
    assert_eq!(timer.due(&at(1_499)), None);
    assert_eq!(timer.due(&at(1_500)), Some(0x40));
    assert_eq!(read(&mut timer, CURRENT, 9_999), 0);
    write(&mut timer, EOI, 0, 9_999);
    assert_eq!((timer.due(&at(1 << 40)), timer.deadline(&at(1 << 40))), (None, None));
}

#[test]
fn periodic_keeps_its_grid_and_merges_what_was_missed() {
    let mut timer = timer(PERIODIC | 0x40);
    write(&mut timer, INITIAL, 300_000, 0);
    for nth in 1..=100 {
        let due = 300_000 * nth;
        assert_eq!(timer.deadline(&at(due - 1)), Some(Nanos(due)));
        assert_eq!(timer.due(&at(due + 7)), Some(0x40));
        write(&mut timer, EOI, 0, due + 9);
    }
    assert_eq!(read(&mut timer, CURRENT, 300_000 * 107 + 1), 299_999);
    assert_eq!(timer.due(&at(300_000 * 107 + 1)), Some(0x40), "one for seven");
    write(&mut timer, EOI, 0, 300_000 * 107 + 1);
    assert_eq!(timer.due(&at(300_000 * 107 + 2)), None);
}

#[test]
fn an_absurd_period_is_made_longer() {
    let mut timer = timer(PERIODIC | 0x40);
    write(&mut timer, INITIAL, 1, 0);
    assert_eq!(timer.deadline(&at(0)), Some(MIN_PERIOD));
    assert_eq!(timer.due(&at(200_000)), Some(0x40));
    write(&mut timer, EOI, 0, 200_000);
    assert_eq!(timer.deadline(&at(200_001)), Some(Nanos(400_000)));
    write(&mut timer, DIVIDE, 0, 200_000);
    assert_eq!(
        timer.deadline(&at(200_000)),
        Some(Nanos(600_000)),
        "what was left, at half the pace"
    );
    write(&mut timer, LVT, 0x40, 300_000);
    write(&mut timer, LVT, PERIODIC | 0x40, 300_000);
    assert_eq!(timer.due(&at(600_000)), Some(0x40));
    write(&mut timer, EOI, 0, 600_000);
    assert_eq!(timer.deadline(&at(600_000)), Some(Nanos(800_000)));
}

#[test]
fn the_tsc_deadline_is_the_guests_tsc() {
    let mut timer = timer(BY_TSC | 0x41);
    write(&mut timer, INITIAL, 5, 0);
    assert_eq!((read(&mut timer, INITIAL, 0), read(&mut timer, CURRENT, 0)), (0, 0), "ignored");
    write(&mut timer, TSC_DEADLINE, 5_001, 1_000);
    assert_eq!(timer.deadline(&at(1_000)), Some(Nanos(2_501)), "not a cycle early");
    assert_eq!(read(&mut timer, TSC_DEADLINE, 2_500), 5_001);
    assert_eq!(timer.due(&at(2_501)), Some(0x41));
    assert_eq!(read(&mut timer, TSC_DEADLINE, 2_501), 0);
    write(&mut timer, EOI, 0, 2_501);
    write(&mut timer, TSC_DEADLINE, 1, 2_501);
    assert_eq!(timer.due(&at(2_501)), Some(0x41), "one in the past fires at once");
    write(&mut timer, EOI, 0, 2_501);
    write(&mut timer, TSC_DEADLINE, 1 << 60, 2_501);
    write(&mut timer, TSC_DEADLINE, 0, 2_501);
    assert_eq!(timer.deadline(&at(2_501)), None, "0 disarms");
    write(&mut timer, TSC_DEADLINE, u64::MAX, 2_501);
    write(&mut timer, LVT, 0x41, 2_501);
    write(&mut timer, TSC_DEADLINE, 7, 2_501);
    assert_eq!(read(&mut timer, TSC_DEADLINE, 2_501), 0, "ignored in other modes");
}

#[test]
fn nothing_is_delivered_twice_masked_or_switched_off() {
    let mut timer = timer(PERIODIC | 0x40);
    write(&mut timer, INITIAL, 300_000, 0);
    assert_eq!(timer.due(&at(300_000)), Some(0x40));
    assert_eq!((timer.due(&at(600_000)), timer.deadline(&at(600_000))), (None, None), "in service");
    write(&mut timer, EOI, 0, 600_001);
    assert_eq!(timer.deadline(&at(600_001)), Some(Nanos(600_001)));
    assert_eq!(timer.due(&at(600_001)), Some(0x40));
    write(&mut timer, EOI, 0, 600_002);
    write(&mut timer, LVT, PERIODIC | u64::from(LVT_RESET) | 0x40, 600_002);
    assert_eq!((timer.due(&at(900_000)), timer.deadline(&at(900_000))), (None, None), "masked");
    assert_eq!(read(&mut timer, CURRENT, 900_001), 299_999, "and counts");
    write(&mut timer, SPURIOUS, 0xff, 900_001);
    write(&mut timer, LVT, PERIODIC | 0x40, 900_001);
    assert_eq!(read(&mut timer, LVT, 900_001), PERIODIC | u64::from(LVT_RESET) | 0x40);
    assert_eq!(timer.due(&at(1_200_000)), None, "switched off");
}

#[test]
fn what_was_requested_waits_until_it_is_switched_on_again() {
    let mut timer = timer(0x40);
    write(&mut timer, INITIAL, 1, 0);
    write(&mut timer, SPURIOUS, 0xff, 1);
    assert_eq!((timer.due(&at(2)), timer.deadline(&at(2))), (None, None));
    write(&mut timer, SPURIOUS, 0x1ff, 3);
    assert_eq!((timer.deadline(&at(3)), timer.due(&at(3))), (Some(Nanos(3)), Some(0x40)));
}

#[test]
fn vectors_of_exceptions_are_not_delivered() {
    for vector in 0..0x20 {
        let mut timer = timer(vector);
        write(&mut timer, INITIAL, 1, 0);
        let delivered = timer.due(&at(1)).map(u64::from);
        assert_eq!(delivered, (vector >= 16).then_some(vector));
    }
}

#[test]
fn the_divider_has_eight_settings() {
    let divisors = [0, 1, 2, 3, 8, 9, 10, 11].map(divisor);
    assert_eq!(divisors, [2, 4, 8, 16, 32, 64, 128, 1]);
    let mut timer = timer(0x40);
    write(&mut timer, INITIAL, 1_000, 0);
    write(&mut timer, DIVIDE, 3, 200);
    assert_eq!(timer.deadline(&at(200)), Some(Nanos(200 + 800 * 16)));
}

#[test]
fn everything_else_is_refused() {
    let mut timer = timer(0x40);
    let now = at(0);
    assert_eq!((read(&mut timer, 0x802, 0), read(&mut timer, 0x803, 0)), (3, 0x5_0014));
    for msr in [0x10, 0x6df, 0x6e1, 0x800, 0x808, 0x80d, 0x830, 0x833, 0x83f, u32::MAX] {
        assert!(!LocalTimer::has(msr));
        assert_eq!(timer.read_msr(msr, &now), Err(Refused::NotThere { msr }));
        assert_eq!(timer.write_msr(msr, 0, &now), Err(Refused::NotThere { msr }));
    }
    assert_eq!(timer.read_msr(EOI, &now), Err(Refused::WriteOnly { msr: EOI }));
    for msr in [0x802, 0x803, CURRENT] {
        assert_eq!(timer.write_msr(msr, 0, &now), Err(Refused::ReadOnly { msr, value: 0 }));
    }
    let before = timer.save();
    let both = PERIODIC | BY_TSC;
    for (msr, value, allowed) in [
        (EOI, 1, 0),
        (SPURIOUS, 0x200, 0x1ff),
        (LVT, 1 << 32, 0x7_10ff),
        (LVT, 0x400, 0x7_10ff),
        (LVT, both, 0x3_10ff),
        (INITIAL, 1 << 32, 0xffff_ffff),
        (DIVIDE, 4, 0xb),
    ] {
        let refused = Refused::Reserved { msr, value, allowed };
        assert_eq!(timer.write_msr(msr, value, &now), Err(refused));
    }
    assert_eq!(timer.save(), before);
    let said = Refused::Reserved { msr: LVT, value: 0x400, allowed: 0x7_10ff }.to_string();
    assert_eq!(said, "0x400 was written to MSR 0x832, which takes the bits 0x710ff only");
}
