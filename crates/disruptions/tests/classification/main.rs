//! Each fault of a simulated machine, at a random moment and of a random size,
//! is classified correctly, within a second, with its size inside its bound;
//! and nothing else is reported.

mod calm;
mod caused;
mod histories;
mod pauses;
mod simulated;

use disruptions::{Disruption, Kind, Kinds};
use proptest::prelude::*;
use simulated::{AsleepTsc, DAY, MS, Machine, Running, S, Source, Watch};

/// Long enough for the rates to be learnt.
const CALM: u64 = 7 * S;

/// A disruption is reported within this of the first sample that shows it.
const SOON: u64 = S;

const MOVED: Kinds = Kinds::any_of(&[Kind::SnapshotRestored, Kind::Migrated]);

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![Just(Source::Tsc), Just(Source::KvmClock), Just(Source::Hpet)]
}

/// A calm time, then a fault, then a calm time again: the only disruption
/// that is reported.
fn only_disruption(machine: Machine, part: f64, fault: impl FnOnce(&mut Machine)) -> Disruption {
    let mut reported = all_disruptions(machine, part, fault);
    assert_eq!(reported.len(), 1, "{reported:#?}");
    reported.remove(0)
}

fn all_disruptions(
    machine: Machine,
    part: f64,
    fault: impl FnOnce(&mut Machine),
) -> Vec<Disruption> {
    let mut watch = Watch::begin(machine);
    watch.watch(CALM);
    assert!(watch.reported.is_empty(), "in a calm time: {:#?}", watch.reported);
    watch.inject(part, fault);
    let sampled_ns = watch.sampled_ns();
    watch.watch(20 * S);
    for (at_ns, disruption) in &watch.reported {
        assert!(
            at_ns - sampled_ns <= SOON,
            "{} ms late: {disruption:#?}",
            (at_ns - sampled_ns) / MS
        );
    }
    watch.reported.into_iter().map(|(_, disruption)| disruption).collect()
}

fn assert_size(disruption: &Disruption, expected_ns: f64) {
    let size = disruption.size.unwrap_or_else(|| panic!("no size: {disruption:#?}"));
    let bound_ns = size.bound_ns + 1000.0 + expected_ns.abs() * 1e-5;
    assert!((size.ns - expected_ns).abs() <= bound_ns, "not {expected_ns}: {disruption:#?}");
}

fn assert_behind(disruption: &Disruption, expected_ns: f64) {
    let behind = disruption.behind.unwrap_or_else(|| panic!("not behind: {disruption:#?}"));
    let bound_ns = behind.bound_ns + 1000.0 + expected_ns.abs() * 1e-5;
    assert!((behind.ns - expected_ns).abs() <= bound_ns, "not {expected_ns}: {disruption:#?}");
}

/// At the end of a UTC day, a second before the fault.
fn late_in_the_day(source: Source) -> Machine {
    Machine::new(source, true, DAY - CALM - 400 * MS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_clock_that_is_set(
        source in source(),
        part in 0.0..1.0f64,
        by_ns in prop_oneof![-1_000_000_000_000i64..-1000, 1000i64..1_000_000_000_000],
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.set_clock(by_ns));
        prop_assert_eq!(found.kinds, Kind::ClockSet.into());
        assert_size(&found, by_ns as f64);
    }

    /// A set by a second is no leap second, at midnight neither.
    #[test]
    fn a_clock_that_is_set_by_a_second(source in source(), part in 0.0..1.0f64) {
        let found = only_disruption(late_in_the_day(source), part, |machine| machine.set_clock(-(S as i64)));
        prop_assert_eq!(found.kinds, Kind::ClockSet.into());
        let announced = Machine::new(source, true, DAY / 3);
        let found = only_disruption(announced, part, |machine| machine.leap(-1));
        prop_assert_eq!(found.kinds, Kind::ClockSet.into());
    }

    #[test]
    fn a_leap_second(source in source(), part in 0.0..1.0f64, inserted: bool) {
        let mut machine = late_in_the_day(source);
        let (by_s, state, bit) = if inserted { (-1, 1, 0x10) } else { (1, 2, 0x20) };
        machine.announce_leap(state, bit);
        let found = only_disruption(machine, part, |machine| machine.leap(by_s));
        prop_assert_eq!(found.kinds, Kind::LeapSecond.into());
        assert_size(&found, by_s as f64 * 1e9);
    }

    #[test]
    fn a_suspend(
        source in source(),
        part in 0.0..1.0f64,
        for_ns in 2 * S..DAY,
        tsc in prop_oneof![
            Just(AsleepTsc::Ran), Just(AsleepTsc::Stood), Just(AsleepTsc::Restarted)
        ],
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let mut left_behind_ns = 0.0;
        let found = only_disruption(machine, part, |machine| {
            let before_ns = machine.behind_ns();
            machine.suspend(for_ns, tsc);
            machine.log_of_a_suspend();
            left_behind_ns = (machine.behind_ns() - before_ns) as f64;
        });
        prop_assert_eq!(found.kinds, Kind::Suspend.into());
        assert_size(&found, for_ns as f64);
        // What the kernel added to the time of day is no loss.
        if found.behind.is_some() {
            assert_behind(&found, left_behind_ns);
        }
        if tsc == AsleepTsc::Ran && source != Source::Tsc {
            prop_assert!(found.behind.is_some() && found.size.unwrap().bound_ns < 1e6 + 2e-6 * for_ns as f64);
        }
    }

    #[test]
    fn a_restored_snapshot(
        source in source(),
        has_rtc: bool,
        reported_by in 0..3,
        real_time: bool,
        part in 0.0..1.0f64,
        for_ns in S..30 * DAY,
    ) {
        let machine = Machine::new(source, has_rtc, DAY / 3);
        let running = if real_time { Running::Host } else { Running::Nothing };
        let found = only_disruption(machine, part, |machine| {
            machine.pause(for_ns, running);
            match reported_by {
                0 => machine.new_generation(),
                1 => machine.log_of_a_fork(),
                _ => machine.announce_generation(),
            }
        });
        prop_assert_eq!(found.kinds, Kind::SnapshotRestored.into());
        // Clocks that the TSC drives do not show the time in between; a page
        // or the RTC may.
        let is_known = source == Source::Tsc && real_time || has_rtc && for_ns > 3 * S && !real_time;
        if is_known {
            assert_behind(&found, for_ns as f64);
        }
    }

    /// A daemon that steps the clock at once is reported with the restore.
    #[test]
    fn a_restored_snapshot_and_a_daemon(
        source in source(),
        part in 0.0..1.0f64,
        for_ns in 10 * S..3600 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let found = all_disruptions(machine, part, |machine| {
            machine.pause(for_ns, Running::Nothing);
            machine.new_generation();
            machine.run(20 * MS);
            machine.set_clock(for_ns as i64);
        });
        let kinds: Vec<_> = found.iter().map(|found| found.kinds).collect();
        let [restored_as, set_as] = [Kind::SnapshotRestored, Kind::ClockSet].map(Kinds::from);
        prop_assert!(kinds.contains(&restored_as) && kinds.contains(&set_as));
        prop_assert_eq!(kinds.len(), 2, "{:#?}", found);
        let set = found.iter().find(|found| found.kinds == set_as).unwrap();
        assert_size(set, for_ns as f64);
        let restored = found.iter().find(|found| found.kinds == restored_as).unwrap();
        assert_behind(restored, for_ns as f64);
    }

    #[test]
    fn a_migration(
        source in source(),
        marked: bool,
        other_rate: bool,
        part in 0.0..1.0f64,
        down_ns in 20 * MS..900 * MS,
        ppm in prop_oneof![-100_000.0f64..-30.0, 30.0..100_000.0f64],
    ) {
        prop_assume!(marked || other_rate);
        let mut machine = Machine::new(source, true, DAY / 3);
        if !marked {
            machine = machine.without_vmclock();
        }
        let found = only_disruption(machine, part, |machine| {
            machine.pause(down_ns, Running::Nothing);
            if marked {
                machine.mark_disruption();
            }
            if other_rate {
                machine.other_tsc((2e9 * (1.0 + ppm * 1e-6)) as u64);
            }
            machine.guest_was_stopped();
        });
        // Without VMClock it may be a snapshot restored on another host.
        prop_assert_eq!(found.kinds, if marked { Kind::Migrated.into() } else { MOVED });
    }

    /// A TSC that jumps while the host keeps its page right.
    #[test]
    fn a_counter_that_jumped(
        part in 0.0..1.0f64,
        s in prop_oneof![-99i64..-5, 5i64..1_000_000],
    ) {
        let machine = Machine::new(Source::KvmClock, true, DAY / 3).without_vmclock();
        let found = only_disruption(machine, part, |machine| machine.jump_tsc(s * 2 * S as i64));
        prop_assert_eq!(found.kinds, MOVED);
        // VMClock would report a move.
        let machine = Machine::new(Source::KvmClock, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.jump_tsc(s * 2 * S as i64));
        prop_assert_eq!(found.kinds, Kind::CounterDisrupted.into());
        let machine = Machine::new(Source::Hpet, true, DAY / 3).without_page();
        let found = only_disruption(machine, part, |machine| machine.jump_tsc(s * 2 * S as i64));
        prop_assert_eq!(found.kinds, Kind::CounterDisrupted.into());
        assert_size(&found, -s as f64 * 1e9);
    }

    #[test]
    fn another_source(part in 0.0..1.0f64, from in source(), to in source()) {
        prop_assume!(from != to);
        let machine = Machine::new(from, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.switch_source(to));
        prop_assert_eq!(found.kinds, Kind::SourceSwitched.into());
    }

    #[test]
    fn a_long_steal(
        source in source(),
        part in 0.0..1.0f64,
        all_cpus: bool,
        for_ns in 1300 * MS..60 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.steal(for_ns, all_cpus));
        // Xen counts a paused domain's time as stolen.
        let both = Kinds::any_of(&[Kind::Pause, Kind::LongSteal]);
        prop_assert_eq!(found.kinds, if all_cpus { both } else { Kind::LongSteal.into() });
        assert_size(&found, for_ns as f64);
    }

    /// The page's stamp is 100 s old: the host's NTP explains 50 ms.
    #[test]
    fn a_step_by_the_host(
        tsc: bool,
        part in 0.0..1.0f64,
        by_ns in prop_oneof![-50_000_000i64..-2000, 2000i64..50_000_000],
    ) {
        let source = if tsc { Source::Tsc } else { Source::KvmClock };
        let machine = Machine::new(source, true, DAY / 3);
        let found = only_disruption(machine, part, |machine| machine.step_host(by_ns));
        prop_assert_eq!(found.kinds, Kind::HostStepped.into());
        assert_size(&found, by_ns as f64);
    }

    /// A stopped, frozen or starved process is no paused machine.
    #[test]
    fn a_process_that_did_not_run(
        source in source(),
        how in 0..3,
        part in 0.0..1.0f64,
        for_ns in 1300 * MS..60 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let found = all_disruptions(machine, part, |machine| match how {
            0 => machine.delay_thread(for_ns),
            1 => machine.stop_process(for_ns, true),
            _ => machine.stop_process(for_ns, false),
        });
        prop_assert_eq!(found, []);
    }

    /// The kernel writes the RTC every eleven minutes.
    #[test]
    fn an_rtc_that_is_set_from_the_time_of_day(
        source in source(),
        part in 0.0..1.0f64,
        off_s in prop_oneof![-9999i64..-4, 4i64..9999],
    ) {
        let mut machine = Machine::new(source, true, DAY / 3);
        machine.set_rtc_error(off_s);
        let found = all_disruptions(machine, part, |machine| machine.set_rtc_error(0));
        prop_assert_eq!(found, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Hours under a daemon that corrects the frequency, and a host that repeats
    /// its page.
    #[test]
    fn calm_hours_under_ntp(
        source in source(),
        has_rtc: bool,
        steps in prop::collection::vec((1..900u64, -200.0..200.0f64), 20),
    ) {
        let mut watch = Watch::begin(Machine::new(source, has_rtc, DAY / 3));
        for (s, ppm) in &steps {
            watch.watch(s * S);
            watch.machine.steer(*ppm);
            watch.machine.step_host(0);
        }
        watch.watch(10 * S);
        let kinds: Vec<_> = watch.reported.iter().map(|(_, found)| found.kinds).collect();
        prop_assert_eq!(kinds, vec![Kind::Steered.into(); steps.len()], "{:#?}", watch.reported);
    }
}
