//! Ten calm minutes on each machine: nothing is reported, not even a step.

use crate::simulated::{DAY, Machine, S, Source, Watch};

const CALM: u64 = 600 * S;

fn assert_calm(machine: Machine, what: &str) {
    let mut watch = Watch::begin(machine);
    watch.watch(CALM);
    assert!(watch.reported.is_empty(), "{what}: {:#?}", watch.reported);
    assert_eq!(watch.steps, 0, "{what}");
}

#[test]
fn ten_minutes_on_each_source_are_calm() {
    for &source in Source::ALL {
        for has_rtc in [false, true] {
            let machine = || Machine::new(source, has_rtc, DAY / 3);
            assert_calm(machine(), source.name());
            if source != Source::KvmClock {
                assert_calm(
                    machine().without_page().without_vmclock().without_log(),
                    source.name(),
                );
            }
        }
    }
}

#[test]
fn ten_minutes_across_midnight_are_calm() {
    assert_calm(Machine::new(Source::Tsc, true, DAY - 300 * S), "tsc");
}

/// Its page is written anew ten times a second, by another clock than the TSC:
/// as in ten minutes of Linux 6.1's KVM on hpet, where steps of 3 µs were seen.
#[test]
fn ten_minutes_without_a_master_clock_are_calm() {
    let machine = Machine::new(Source::KvmClock, true, DAY / 3).without_vmclock();
    let mut watch = Watch::begin(machine.without_master_clock());
    for second in 0..600 {
        watch.watch(S);
        watch
            .inject(0.3, |machine| machine.step_host(if second % 2 == 0 { -2_963 } else { 3_128 }));
    }
    assert!(watch.reported.is_empty(), "{:#?}", watch.reported[0]);
}
