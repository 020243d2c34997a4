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

/// A TSC of 2 GHz, enabled.
fn timer(lvt: u64) -> LocalTimer {
    let mut timer = LocalTimer::new(3, Hertz(2_000_000_000));
    for (msr, value) in [(SPURIOUS, 0x1ff), (LVT, lvt)] {
        write(&mut timer, msr, value, 0);
    }
    timer
}

fn write(timer: &mut LocalTimer, msr: u32, value: u64, ns: u64) {
    assert_eq!(timer.write_msr(msr, value, &at(ns)), Ok(()), "{value:#x} to {msr:#x}");
}

/// Arms it for the moment `ns`.
fn arm(timer: &mut LocalTimer, ns: u64, now_ns: u64) {
    write(timer, TSC_DEADLINE, ns * 2, now_ns);
}

fn read(timer: &mut LocalTimer, msr: u32, ns: u64) -> u64 {
    timer.read_msr(msr, &at(ns)).expect("it can be read")
}

fn at(ns: u64) -> Moment {
    Moment { guest_tsc: Ticks(ns * 2), ..Moment::from_ns(ns) }
}

#[test]
fn the_tsc_deadline_is_the_guests_tsc() {
    let mut timer = timer(BY_TSC | 0x41);
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
fn nothing_is_delivered_twice_masked_or_disabled() {
    let mut timer = timer(BY_TSC | 0x40);
    arm(&mut timer, 300_000, 0);
    assert_eq!(timer.due(&at(300_000)), Some(0x40));
    arm(&mut timer, 600_000, 300_001);
    assert_eq!((timer.due(&at(600_000)), timer.deadline(&at(600_000))), (None, None), "in service");
    write(&mut timer, EOI, 0, 600_001);
    assert_eq!(timer.deadline(&at(600_001)), Some(Nanos(600_001)));
    assert_eq!(timer.due(&at(600_001)), Some(0x40));
    write(&mut timer, EOI, 0, 600_002);
    write(&mut timer, LVT, BY_TSC | u64::from(LVT_RESET) | 0x40, 600_002);
    arm(&mut timer, 900_000, 600_002);
    assert_eq!((timer.due(&at(900_000)), timer.deadline(&at(900_000))), (None, None), "masked");
    write(&mut timer, SPURIOUS, 0xff, 900_001);
    write(&mut timer, LVT, BY_TSC | 0x40, 900_001);
    assert_eq!(read(&mut timer, LVT, 900_001), BY_TSC | u64::from(LVT_RESET) | 0x40);
    arm(&mut timer, 1_200_000, 900_002);
    assert_eq!(timer.due(&at(1_200_000)), None, "disabled");
}

#[test]
fn a_requested_vector_waits_until_the_apic_is_enabled_again() {
    let mut timer = timer(BY_TSC | 0x40);
    arm(&mut timer, 1, 0);
    write(&mut timer, SPURIOUS, 0xff, 1);
    assert_eq!((timer.due(&at(2)), timer.deadline(&at(2))), (None, None));
    write(&mut timer, SPURIOUS, 0x1ff, 3);
    assert_eq!((timer.deadline(&at(3)), timer.due(&at(3))), (Some(Nanos(3)), Some(0x40)));
}

#[test]
fn vectors_of_exceptions_are_not_delivered() {
    for vector in 0..0x20 {
        let mut timer = timer(BY_TSC | vector);
        arm(&mut timer, 1, 0);
        let delivered = timer.due(&at(1)).map(u64::from);
        assert_eq!(delivered, (vector >= 16).then_some(vector));
    }
}

#[test]
fn a_tsc_deadline_is_nothing_in_other_modes() {
    for lvt in [0x40, PERIODIC | 0x40] {
        let mut timer = timer(lvt);
        arm(&mut timer, 5, 0);
        assert_eq!(read(&mut timer, TSC_DEADLINE, 1), 0);
        assert_eq!((timer.deadline(&at(1)), timer.due(&at(1 << 40))), (None, None));
    }
}

#[test]
fn everything_else_is_refused() {
    let mut timer = timer(0x40);
    let now = at(0);
    assert_eq!((read(&mut timer, 0x802, 0), read(&mut timer, 0x803, 0)), (3, 0x5_0014));
    for msr in [0x10, 0x6df, 0x6e1, 0x800, 0x808, 0x80d, 0x830, 0x833, 0x837, 0x83a, u32::MAX] {
        assert!(!LocalTimer::has(msr));
        assert_eq!(timer.read_msr(msr, &now), Err(Refused::NotThere { msr }));
        assert_eq!(timer.write_msr(msr, 0, &now), Err(Refused::NotThere { msr }));
    }
    assert_eq!(timer.read_msr(EOI, &now), Err(Refused::WriteOnly { msr: EOI }));
    for msr in [0x802, 0x803, CURRENT] {
        assert_eq!(timer.write_msr(msr, 0, &now), Err(Refused::ReadOnly { msr, value: 0 }));
    }
    let before = timer;
    let both = PERIODIC | BY_TSC;
    for (msr, value, allowed) in [
        (EOI, 1, 0),
        (SPURIOUS, 0x200, 0x1ff),
        (LVT, 1 << 32, 0x7_10ff),
        (LVT, 0x400, 0x7_10ff),
        (LVT, both, 0x3_10ff),
    ] {
        let refused = Refused::Reserved { msr, value, allowed };
        assert_eq!(timer.write_msr(msr, value, &now), Err(refused));
    }
    assert_eq!(timer, before);
    let message = Refused::Reserved { msr: LVT, value: 0x400, allowed: 0x7_10ff }.to_string();
    assert_eq!(message, "MSR 0x832: 0x400 sets reserved bits (allowed 0x710ff)");
}

/// 1 ms, divided by 1: from 0 on, and held from 10.5 to 20.5 ms.
#[test]
fn missed_ticks_are_given_by_the_policy() {
    const MS: u64 = 1_000_000;
    let catch_up = TickPolicy::CatchUp { rate: 2, most: 100 };
    for (policy, expected, then_at) in [
        (TickPolicy::Merge, 30 - 9, 31 * MS),
        (TickPolicy::Discard, 30 - 10, 31 * MS),
        // One at 20.5 ms, and from there on.
        (TickPolicy::Delay, 30 - 10, 30 * MS + MS / 2),
        (catch_up, 30, 31 * MS),
    ] {
        let mut timer = timer(PERIODIC | 0x40).with_ticks(policy);
        write(&mut timer, DIVIDE, 0b1011, 0);
        write(&mut timer, INITIAL, MS, 0);
        assert_eq!(timer.deadline(&at(0)), Some(Nanos(MS)));
        assert_eq!(read(&mut timer, CURRENT, MS / 4), MS / 4 * 3);
        let (mut given, mut then) = (0, 0);
        while let Some(Nanos(next)) = timer.deadline(&at(0)) {
            let now = if (10 * MS + 1..20 * MS + MS / 2).contains(&next) {
                20 * MS + MS / 2
            } else {
                next
            };
            if now > 30 * MS + MS / 4 {
                then = next;
                break;
            }
            if timer.due(&at(now)).is_some() {
                given += 1;
                assert_eq!(timer.due(&at(now)), None, "in service");
                write(&mut timer, EOI, 0, now);
            }
        }
        assert_eq!((given, then), (expected, then_at), "{policy:?}");
    }
}

#[test]
fn a_masked_or_stopped_timer_owes_nothing() {
    let mut timer = timer(PERIODIC | 0x40);
    write(&mut timer, DIVIDE, 0, 0);
    write(&mut timer, INITIAL, 500, 0);
    assert_eq!(timer.deadline(&at(0)), Some(Nanos(1_000)), "divided by 2");
    write(&mut timer, LVT, PERIODIC | u64::from(LVT_RESET) | 0x40, 0);
    assert_eq!((timer.due(&at(5_000)), timer.deadline(&at(5_000))), (None, None));
    write(&mut timer, LVT, PERIODIC | 0x40, 5_500);
    assert_eq!(timer.deadline(&at(5_500)), Some(Nanos(6_500)));
    write(&mut timer, INITIAL, 0, 5_600);
    assert_eq!(timer.deadline(&at(9_000)), None);
    write(&mut timer, INITIAL, 500, 9_000);
    write(&mut timer, LVT, 0x40, 9_000);
    assert_eq!(timer.deadline(&at(9_000)), None, "one shot");
}
