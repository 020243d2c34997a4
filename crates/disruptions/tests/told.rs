//! Whatever befalls a simulated machine, at a random moment and of a random
//! size, is told for what it is, within a second, with its size inside its
//! bound; and nothing else is told.

mod simulated;

use disruptions::{Disruption, Kind};
use proptest::prelude::*;
use simulated::{DAY, Held, MS, Machine, S, Source, Watch};

/// Long enough for the rates to be learnt.
const CALM: u64 = 7 * S;

/// What is told is told within this of the first look that could show it.
const SOON: u64 = S;

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![Just(Source::Tsc), Just(Source::KvmClock), Just(Source::Hpet)]
}

/// A calm time, then what befalls the machine, then a calm time again: the
/// one thing that is told.
fn only_told(machine: Machine, part: f64, befall: impl FnOnce(&mut Machine)) -> Disruption {
    let mut told = all_told(machine, part, befall);
    assert_eq!(told.len(), 1, "{told:#?}");
    told.remove(0)
}

fn all_told(machine: Machine, part: f64, befall: impl FnOnce(&mut Machine)) -> Vec<Disruption> {
    let mut watch = Watch::begin(machine);
    watch.watch(CALM);
    assert!(watch.told.is_empty(), "in a calm time: {:#?}", watch.told);
    watch.befall(part, befall);
    let shown_ns = watch.shown_ns();
    watch.watch(20 * S);
    for (at_ns, told) in &watch.told {
        assert!(at_ns - shown_ns <= SOON, "{} ms late: {told:#?}", (at_ns - shown_ns) / MS);
    }
    watch.told.into_iter().map(|(_, told)| told).collect()
}

fn assert_size(told: &Disruption, expected_ns: f64) {
    let size = told.size.unwrap_or_else(|| panic!("no size: {told:#?}"));
    let bound_ns = size.bound_ns + 1000.0 + expected_ns.abs() * 1e-5;
    assert!((size.ns - expected_ns).abs() <= bound_ns, "not {expected_ns}: {told:#?}");
}

fn assert_behind(told: &Disruption, expected_ns: f64) {
    let behind = told.behind.unwrap_or_else(|| panic!("not behind: {told:#?}"));
    let bound_ns = behind.bound_ns + 1000.0 + expected_ns.abs() * 1e-5;
    assert!((behind.ns - expected_ns).abs() <= bound_ns, "not {expected_ns}: {told:#?}");
}

/// At the end of a UTC day, a second before what befalls comes.
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
        let told = only_told(machine, part, |machine| machine.set_clock(by_ns));
        prop_assert_eq!(told.kind, Kind::ClockSet);
        assert_size(&told, by_ns as f64);
    }

    /// A second by hand is no leap second, at midnight neither.
    #[test]
    fn a_clock_that_is_set_by_a_second(source in source(), part in 0.0..1.0f64) {
        let told = only_told(late_in_the_day(source), part, |machine| machine.set_clock(-(S as i64)));
        prop_assert_eq!(told.kind, Kind::ClockSet);
        let announced = Machine::new(source, true, DAY / 3);
        let told = only_told(announced, part, |machine| machine.leap(-1));
        prop_assert_eq!(told.kind, Kind::ClockSet);
    }

    #[test]
    fn a_leap_second(source in source(), part in 0.0..1.0f64, inserted: bool) {
        let mut machine = late_in_the_day(source);
        let (by_s, state, bit) = if inserted { (-1, 1, 0x10) } else { (1, 2, 0x20) };
        machine.announce_leap(state, bit);
        let told = only_told(machine, part, |machine| machine.leap(by_s));
        prop_assert_eq!(told.kind, Kind::LeapSecond);
        assert_size(&told, by_s as f64 * 1e9);
    }

    #[test]
    fn a_sleep(source in source(), part in 0.0..1.0f64, for_ns in S..DAY, resets: bool) {
        let machine = Machine::new(source, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.suspend(for_ns, resets));
        prop_assert_eq!(told.kind, Kind::Suspend);
        assert_size(&told, for_ns as f64);
    }

    /// The host stopped the virtual CPUs and no clock: no step, no steal, a
    /// look that comes late on a machine that did nothing meanwhile.
    #[test]
    fn a_pause_through_which_all_goes_on(
        kvm_clock: bool,
        has_page: bool,
        has_rtc: bool,
        part in 0.0..1.0f64,
        for_ns in 1300 * MS..3600 * S,
    ) {
        let source = if kvm_clock { Source::KvmClock } else { Source::Tsc };
        let mut machine = Machine::new(source, has_rtc, DAY / 3);
        if !has_page && !kvm_clock {
            machine = machine.without_page();
        }
        let told = only_told(machine, part, |machine| machine.hold(for_ns, Held::All));
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
    }

    /// QEMU's stop and cont on KVM: the TSC goes on, kvm-clock stands.
    #[test]
    fn a_pause_that_the_source_stood_through(
        source in prop_oneof![Just(Source::KvmClock), Just(Source::Hpet)],
        has_rtc: bool,
        flagged: bool,
        part in 0.0..1.0f64,
        for_ns in 200 * MS..3600 * S,
    ) {
        let machine = Machine::new(source, has_rtc, DAY / 3);
        let told = only_told(machine, part, |machine| {
            machine.hold(for_ns, Held::Tsc);
            if flagged {
                machine.guest_was_stopped();
            }
        });
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
        assert_behind(&told, for_ns as f64);
    }

    /// The same under clocksource tsc: the page alone stood.
    #[test]
    fn a_pause_that_the_page_stood_through(
        has_rtc: bool,
        part in 0.0..1.0f64,
        for_ns in 400 * MS..3600 * S,
    ) {
        let machine = Machine::new(Source::Tsc, has_rtc, DAY / 3);
        let told = only_told(machine, part, |machine| machine.hold(for_ns, Held::Tsc));
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
    }

    /// Only the RTC, or a page that the TSC does not carry, can tell.
    #[test]
    fn a_pause_through_which_no_counter_went(
        source in source(),
        part in 0.0..1.0f64,
        for_ns in 2100 * MS..3600 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.hold(for_ns, Held::Nothing));
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
        assert_behind(&told, for_ns as f64);
    }

    /// The same, and the timer did not stand still to the nanosecond.
    #[test]
    fn a_pause_through_which_hardly_a_counter_went(
        part in 0.0..1.0f64,
        for_ns in 2100 * MS..3600 * S,
        ahead_ns in 0..10 * MS,
    ) {
        let machine = Machine::new(Source::Hpet, true, DAY / 3).without_page();
        let told = only_told(machine, part, |machine| {
            machine.hold(for_ns, Held::Nothing);
            machine.hpet_resumes_ahead(ahead_ns);
        });
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
        assert_behind(&told, for_ns as f64);
    }

    /// A host that slept, its TSC anew: the page knows.
    #[test]
    fn a_pause_that_the_page_went_through(
        part in 0.0..1.0f64,
        has_rtc: bool,
        for_ns in S..3600 * S,
    ) {
        let machine = Machine::new(Source::Tsc, has_rtc, DAY / 3);
        let told = only_told(machine, part, |machine| machine.hold(for_ns, Held::Host));
        prop_assert_eq!(told.kind, Kind::Pause);
        assert_size(&told, for_ns as f64);
        assert_behind(&told, for_ns as f64);
    }

    #[test]
    fn a_restored_snapshot(
        source in source(),
        has_rtc: bool,
        told_by in 0..3,
        real_time: bool,
        part in 0.0..1.0f64,
        for_ns in S..30 * DAY,
    ) {
        let machine = Machine::new(source, has_rtc, DAY / 3);
        let held = if real_time { Held::Host } else { Held::Nothing };
        let told = only_told(machine, part, |machine| {
            machine.hold(for_ns, held);
            match told_by {
                0 => machine.new_generation(),
                1 => machine.log_of_a_fork(),
                _ => machine.announce_generation(),
            }
        });
        prop_assert_eq!(told.kind, Kind::SnapshotRestored);
        // What the TSC carries knows nothing of the time in between, unless
        // a page or the RTC do.
        let knows = source == Source::Tsc && real_time || has_rtc && for_ns > 3 * S && !real_time;
        if knows {
            assert_behind(&told, for_ns as f64);
        }
    }

    /// A daemon that steps the clock at once is told beside the restore.
    #[test]
    fn a_restored_snapshot_and_a_daemon(
        source in source(),
        part in 0.0..1.0f64,
        for_ns in 10 * S..3600 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let told = all_told(machine, part, |machine| {
            machine.hold(for_ns, Held::Nothing);
            machine.new_generation();
            machine.run(20 * MS);
            machine.set_clock(for_ns as i64);
        });
        let kinds: Vec<_> = told.iter().map(|told| told.kind).collect();
        prop_assert!(kinds.contains(&Kind::SnapshotRestored) && kinds.contains(&Kind::ClockSet));
        prop_assert_eq!(kinds.len(), 2, "{:#?}", told);
        let set = told.iter().find(|told| told.kind == Kind::ClockSet).unwrap();
        assert_size(set, for_ns as f64);
        let restored = told.iter().find(|told| told.kind == Kind::SnapshotRestored).unwrap();
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
        let machine = Machine::new(source, true, DAY / 3);
        let told = only_told(machine, part, |machine| {
            machine.hold(down_ns, Held::Nothing);
            if marked {
                machine.mark_disruption();
            }
            if other_rate {
                machine.other_tsc((2e9 * (1.0 + ppm * 1e-6)) as u64);
            }
            machine.guest_was_stopped();
        });
        prop_assert_eq!(told.kind, Kind::Migrated);
    }

    /// A TSC that is set elsewhere while the host keeps its page right.
    #[test]
    fn a_counter_that_jumped(
        part in 0.0..1.0f64,
        s in prop_oneof![-99i64..-5, 5i64..1_000_000],
    ) {
        let machine = Machine::new(Source::KvmClock, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.jump_tsc(s * 2 * S as i64));
        prop_assert_eq!(told.kind, Kind::Migrated);
        let machine = Machine::new(Source::Hpet, true, DAY / 3).without_page();
        let told = only_told(machine, part, |machine| machine.jump_tsc(s * 2 * S as i64));
        prop_assert_eq!(told.kind, Kind::CounterDisrupted);
        assert_size(&told, -s as f64 * 1e9);
    }

    #[test]
    fn another_source(part in 0.0..1.0f64, from in source(), to in source()) {
        prop_assume!(from != to);
        let machine = Machine::new(from, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.switch_source(to));
        prop_assert_eq!(told.kind, Kind::SourceSwitched);
    }

    #[test]
    fn a_long_steal(source in source(), part in 0.0..1.0f64, for_ns in 1300 * MS..60 * S) {
        let machine = Machine::new(source, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.steal(for_ns));
        prop_assert_eq!(told.kind, Kind::LongSteal);
        assert_size(&told, for_ns as f64);
    }

    /// The page's stamp is 100 s old: its host's NTP explains 50 ms.
    #[test]
    fn a_step_of_the_hosts(
        tsc: bool,
        part in 0.0..1.0f64,
        by_ns in prop_oneof![-50_000_000i64..-2000, 2000i64..50_000_000],
    ) {
        let source = if tsc { Source::Tsc } else { Source::KvmClock };
        let machine = Machine::new(source, true, DAY / 3);
        let told = only_told(machine, part, |machine| machine.step_host(by_ns));
        prop_assert_eq!(told.kind, Kind::HostStepped);
        assert_size(&told, by_ns as f64);
    }

    /// A stopped, frozen or starved watcher is no stopped machine.
    #[test]
    fn a_watcher_that_did_not_run(
        source in source(),
        how in 0..3,
        part in 0.0..1.0f64,
        for_ns in 1300 * MS..60 * S,
    ) {
        let machine = Machine::new(source, true, DAY / 3);
        let told = all_told(machine, part, |machine| match how {
            0 => machine.keep_waiting(for_ns),
            1 => machine.stop_the_watcher(for_ns, true),
            _ => machine.stop_the_watcher(for_ns, false),
        });
        prop_assert_eq!(told, []);
    }

    /// The kernel writes the RTC every eleven minutes.
    #[test]
    fn an_rtc_that_is_set_from_the_time_of_day(
        source in source(),
        part in 0.0..1.0f64,
        off_s in prop_oneof![-9999i64..-4, 4i64..9999],
    ) {
        let mut machine = Machine::new(source, true, DAY / 3);
        machine.put_rtc_off(off_s);
        let told = all_told(machine, part, |machine| machine.put_rtc_off(0));
        prop_assert_eq!(told, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Two hours under a daemon that corrects the frequency, and a host that
    /// repeats its page each 300 s.
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
        let kinds: Vec<_> = watch.told.iter().map(|(_, told)| told.kind).collect();
        prop_assert_eq!(kinds, vec![Kind::Steered; steps.len()], "{:#?}", watch.told);
    }
}
