use super::*;

const EOI: u32 = END_OF_INTERRUPT;
const INITIAL: u32 = INITIAL_COUNT;
const CURRENT: u32 = CURRENT_COUNT;
const PERIODIC: u64 = super::PERIODIC as u64;

/// Enabled.
fn timer(lvt: u64) -> LocalTimer {
    let mut timer = LocalTimer::new(3);
    for (msr, value) in [(SPURIOUS, 0x1ff), (LVT, lvt), (DIVIDE, 0b1011)] {
        write(&mut timer, msr, value, 0);
    }
    timer
}

fn write(timer: &mut LocalTimer, msr: u32, value: u64, ns: u64) {
    assert_eq!(timer.write_msr(msr, value, &at(ns)), Some(()), "{value:#x} to {msr:#x}");
}

fn read(timer: &mut LocalTimer, msr: u32, ns: u64) -> u64 {
    timer.read_msr(msr, &at(ns)).expect("it can be read")
}

fn at(ns: u64) -> Moment {
    Moment::from_ns(ns)
}

#[test]
fn nothing_is_delivered_twice_masked_or_disabled() {
    let mut timer = timer(PERIODIC | 0x40);
    write(&mut timer, INITIAL, 300_000, 0);
    assert_eq!((timer.due(&at(299_999)), timer.due(&at(300_000))), (None, Some(0x40)));
    assert_eq!((timer.due(&at(600_000)), timer.deadline()), (None, None), "in service");
    write(&mut timer, EOI, 0, 600_001);
    assert_eq!(timer.due(&at(600_001)), Some(0x40));
    write(&mut timer, EOI, 0, 600_002);
    write(&mut timer, LVT, PERIODIC | u64::from(MASKED) | 0x40, 600_002);
    assert_eq!((timer.due(&at(900_000)), timer.deadline()), (None, None), "masked");
    write(&mut timer, SPURIOUS, 0xff, 900_001);
    write(&mut timer, LVT, PERIODIC | 0x40, 900_001);
    assert_eq!(read(&mut timer, LVT, 900_001), PERIODIC | u64::from(MASKED) | 0x40);
    assert_eq!(timer.due(&at(1_300_000)), None, "disabled");
}

#[test]
fn vectors_of_exceptions_are_not_delivered() {
    for vector in 0..0x20 {
        let mut timer = timer(PERIODIC | vector);
        write(&mut timer, INITIAL, 1, 0);
        let delivered = timer.due(&at(1)).map(u64::from);
        assert_eq!(delivered, (vector >= 16).then_some(vector));
    }
}

#[test]
fn nothing_fires_in_other_modes() {
    let mut timer = timer(0x40);
    write(&mut timer, INITIAL, 5, 0);
    assert_eq!((timer.deadline(), timer.due(&at(1 << 40))), (None, None));
}

#[test]
fn everything_else_is_refused() {
    let mut timer = timer(0x40);
    let now = at(0);
    assert_eq!((read(&mut timer, 0x802, 0), read(&mut timer, 0x803, 0)), (3, 0x5_0014));
    for msr in [0x10, 0x6e0, 0x6e1, 0x800, 0x808, 0x80d, 0x830, 0x833, 0x837, 0x83a, u32::MAX] {
        assert!(!LocalTimer::has(msr));
        assert_eq!((timer.read_msr(msr, &now), timer.write_msr(msr, 0, &now)), (None, None));
    }
    assert_eq!(timer.read_msr(EOI, &now), None, "write-only");
    for msr in [0x802, 0x803, CURRENT] {
        assert_eq!(timer.write_msr(msr, 0, &now), None, "read-only");
    }
    let before = timer;
    let by_tsc = 1 << 18;
    for (msr, value) in [(EOI, 1), (SPURIOUS, 0x200), (LVT, 1 << 32), (LVT, 0x400), (LVT, by_tsc)] {
        assert_eq!(timer.write_msr(msr, value, &now), None, "{value:#x} to {msr:#x}");
    }
    assert_eq!(timer, before);
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
        assert_eq!(timer.deadline(), Some(Nanos(MS)));
        assert_eq!(read(&mut timer, CURRENT, MS / 4), MS / 4 * 3);
        let (mut given, mut then) = (0, 0);
        while let Some(Nanos(next)) = timer.deadline() {
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
    assert_eq!(timer.deadline(), Some(Nanos(1_000)), "divided by 2");
    write(&mut timer, LVT, PERIODIC | u64::from(MASKED) | 0x40, 0);
    assert_eq!((timer.due(&at(5_000)), timer.deadline()), (None, None));
    write(&mut timer, LVT, PERIODIC | 0x40, 5_500);
    assert_eq!(timer.deadline(), Some(Nanos(6_500)));
    write(&mut timer, INITIAL, 0, 5_600);
    assert_eq!(timer.deadline(), None);
    write(&mut timer, INITIAL, 500, 9_000);
    write(&mut timer, LVT, 0x40, 9_000);
    assert_eq!(timer.deadline(), None, "one shot");
}
