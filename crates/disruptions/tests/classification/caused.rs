//! Each thing that happens to machines, of its true size, on the machines that
//! it happens to: what is told of it.

use disruptions::{Disruption, Kind, Kinds};

use crate::simulated::{AsleepTsc, DAY, MS, Machine, Running, S, Source, Watch};

const MOVED: Kinds = Kinds::any_of(&[Kind::SnapshotRestored, Kind::Migrated]);
const STOOD: Kinds = Kinds::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated]);
const STOOD_OR_RTC_SET: Kinds =
    Kinds::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated, Kind::RtcSet]);
const PAUSED_OR_RTC_SET: Kinds = Kinds::any_of(&[Kind::Pause, Kind::RtcSet]);
const DAYTIME: u64 = DAY / 3;

/// QEMU on KVM: kvm-clock, an RTC, no VMClock.
fn kvm() -> Machine {
    Machine::new(Source::KvmClock, true, DAYTIME).without_vmclock()
}

/// The same with a VMClock of QEMU's, which has just a marker.
fn kvm_with_vmclock() -> Machine {
    Machine::new(Source::KvmClock, true, DAYTIME).without_generation()
}

/// QEMU without KVM: no page.
fn emulated(source: Source) -> Machine {
    Machine::new(source, true, DAYTIME).without_page().without_vmclock()
}

/// What is told of a fault: each kind, and its size in s with the bound.
fn disruptions_of(machine: Machine, fault: impl FnOnce(&mut Machine)) -> Vec<Disruption> {
    let mut watch = Watch::begin(machine);
    watch.watch(7 * S);
    assert!(watch.reported.is_empty(), "before: {:#?}", watch.reported);
    watch.inject(0.4, fault);
    let seen_ns = watch.sampled_ns();
    watch.watch(10 * S);
    for (at_ns, disruption) in &watch.reported {
        assert!(at_ns - seen_ns <= S, "{} ms late: {disruption:#?}", (at_ns - seen_ns) / MS);
    }
    watch.reported.into_iter().map(|(_, disruption)| disruption).collect()
}

#[track_caller]
fn assert_told(machine: Machine, kinds: Kinds, s: f64, fault: impl FnOnce(&mut Machine)) {
    let told = disruptions_of(machine, fault);
    let [one] = &told[..] else { panic!("not one: {told:#?}") };
    assert_eq!(one.kinds, kinds, "{one:#?}");
    let size = one.size.unwrap_or_else(|| panic!("no size: {one:#?}"));
    assert!((size.ns - s * 1e9).abs() <= size.bound_ns + 2000.0, "not {s} s: {one:#?}");
}

#[track_caller]
fn assert_kinds(machine: Machine, expected: &[Kinds], fault: impl FnOnce(&mut Machine)) {
    let told = disruptions_of(machine, fault);
    let kinds: Vec<_> = told.iter().map(|disruption| disruption.kinds).collect();
    assert_eq!(kinds, expected, "{told:#?}");
}

#[test]
fn stop_and_cont_on_kvm() {
    for (ms, s) in [(300, 0.3), (2000, 2.0), (60_000, 60.0)] {
        for machine in [kvm(), kvm_with_vmclock(), kvm().without_log()] {
            assert_told(machine, Kind::Pause.into(), s, |machine| {
                machine.pause(ms * MS, Running::Tsc);
                machine.guest_was_stopped();
            });
        }
    }
}

/// Every counter stops. A pause below the RTC's resolution leaves no trace, nothing tells it
/// from a restore but a VMClock, and nothing from an RTC that somebody set.
#[test]
fn stop_and_cont_without_kvm() {
    for source in [Source::Tsc, Source::Hpet, Source::AcpiPm] {
        let pause = |ms| move |machine: &mut Machine| machine.pause(ms * MS, Running::Nothing);
        assert_kinds(emulated(source), &[], pause(300));
        assert_told(emulated(source), STOOD_OR_RTC_SET, 2.2, pause(2200));
        assert_told(emulated(source), STOOD_OR_RTC_SET, 60.0, pause(60_000));
        let machine = Machine::new(source, true, DAYTIME).without_page();
        assert_told(machine, PAUSED_OR_RTC_SET, 60.0, pause(60_000));
    }
}

#[test]
fn a_host_that_stops_only_the_cpus() {
    for s in [2, 60] {
        assert_told(kvm(), Kind::Pause.into(), s as f64, |machine| {
            machine.pause(s * S, Running::All);
        });
    }
}

/// At once, and after a minute.
#[test]
fn savevm_and_loadvm() {
    for s in [0, 60] {
        let restored = |machine: &mut Machine| {
            machine.pause(s * S, Running::Nothing);
            machine.mark_disruption();
        };
        assert_kinds(kvm_with_vmclock(), &[MOVED], restored);
        // A host that counts generations counts this one.
        let counted = Machine::new(Source::Tsc, true, DAYTIME);
        assert_kinds(counted, &[Kind::SnapshotRestored.into()], |machine| {
            restored(machine);
            machine.new_generation();
        });
    }
    // The TSC was set back to its saved value, and the page rewritten.
    assert_kinds(kvm(), &[MOVED], |machine| machine.jump_tsc(-(S as i64) * 30));
    assert_told(emulated(Source::Hpet), STOOD_OR_RTC_SET, 60.0, |machine| {
        machine.pause(60 * S, Running::Nothing);
    });
}

/// The emulated TSC goes on by the time away, and the clock with it; the timer
/// does not, so the kernel gives the TSC up (QEMU, Linux 7.2).
#[test]
fn a_snapshot_put_back_whose_tsc_ran_on() {
    assert_kinds(emulated(Source::Tsc), &[STOOD, Kind::SourceSwitched.into()], |machine| {
        machine.pause(7 * S, Running::All);
        machine.log_of_an_unstable_tsc();
        machine.switch_source(Source::Hpet);
    });
}

/// The emulated TSC goes on from what it was when the machine was put back, and every timer
/// from what it was when it was saved (QEMU, Linux 6.1 on hpet): the TSC shows how long the
/// machine ran in between, and the RTC alone how long it was away. Seen: '4.856 ± 0.000 s
/// behind' of one that was 6.4 s behind.
#[test]
fn a_snapshot_put_back_beside_a_tsc_that_ran_on() {
    let cases = [(700, 4856, 800), (2600, 60, 2600), (2600, 240, 2600), (100, 5000, 1700)];
    for source in [Source::Hpet, Source::AcpiPm] {
        for (saving_ms, ran_ms, loading_ms) in cases {
            let away_ns = (saving_ms + ran_ms + loading_ms) * MS;
            let told = disruptions_of(emulated(source), |machine| {
                machine.pause(saving_ms * MS, Running::Nothing);
                machine.pause(ran_ms * MS, Running::Tsc);
                machine.pause(loading_ms * MS, Running::Nothing);
            });
            let [one] = &told[..] else { panic!("not one: {told:#?}") };
            assert_eq!(one.kinds, STOOD, "{one:#?}");
            for (what, size) in [("size", one.size), ("loss", one.behind)] {
                let size = size.unwrap_or_else(|| panic!("no {what}: {one:#?}"));
                let off_ns = (size.ns - away_ns as f64).abs();
                assert!(off_ns <= size.bound_ns + 2000.0, "{what} is not {away_ns}: {one:#?}");
                assert!(size.bound_ns < 1.1e9, "{what}: {one:#?}");
            }
        }
    }
    // Where a VMClock shows that it was not put back, the TSC says how long it stood.
    let machine = Machine::new(Source::Hpet, true, DAYTIME).without_page();
    let told = disruptions_of(machine, |machine| machine.pause(5 * S, Running::Tsc));
    assert_eq!(told[0].kinds, Kind::Pause.into());
    assert!(told[0].size.unwrap().bound_ns < 1e6, "{told:#?}");
}

#[test]
fn a_live_migration() {
    let moved = |machine: &mut Machine| {
        machine.pause(28 * MS, Running::Nothing);
        machine.mark_disruption();
    };
    assert_kinds(kvm_with_vmclock(), &[MOVED], moved);
    let counts = Machine::new(Source::KvmClock, true, DAYTIME);
    assert_kinds(counts, &[Kind::Migrated.into()], moved);
    // To a host of another TSC frequency; VMClock would say so, too.
    assert_kinds(kvm(), &[MOVED], |machine| machine.other_tsc(2_400_000_000));
}

/// An S3 of 5.6 s, of which the kernel adds 5 or 6 by the RTC.
#[test]
fn a_suspend_to_ram() {
    for machine in [emulated(Source::Hpet), emulated(Source::AcpiPm), kvm()] {
        let mut left_ns = 0;
        let found = disruptions_of(machine, |machine| {
            let before_ns = machine.behind_ns();
            machine.suspend(5600 * MS, AsleepTsc::Ran);
            machine.log_of_a_suspend();
            left_ns = machine.behind_ns() - before_ns;
        });
        let [found] = &found[..] else { panic!("{found:#?}") };
        assert_eq!(found.kinds, Kind::Suspend.into());
        let (size, behind) = (found.size.unwrap(), found.behind.unwrap());
        assert!((size.ns - 5.6e9).abs() <= size.bound_ns + 2000.0, "{found:#?}");
        assert!(
            (behind.ns - left_ns as f64).abs() <= behind.bound_ns + 2000.0 && behind.ns.abs() < 1e9,
            "not {left_ns}: {found:#?}"
        );
    }
    // A TSC that stopped shows no loss.
    let found = disruptions_of(emulated(Source::Tsc), |machine| {
        machine.suspend(5600 * MS, AsleepTsc::Stood);
        machine.log_of_a_suspend();
    });
    assert_eq!(found[0].behind, None, "{found:#?}");
}

#[test]
fn a_xen_domain() {
    let domain = || Machine::new(Source::Xen, false, DAYTIME).without_page().without_vmclock();
    // xl pause, xl unpause.
    let both = Kinds::any_of(&[Kind::Pause, Kind::LongSteal]);
    for domain in [domain(), domain().idle()] {
        assert_told(domain, both, 4.0, |machine| machine.pause_by_xen(4 * S));
    }
    // xl save, xl restore: no line of a suspend in the log, and none is needed.
    let kinds = Kinds::any_of(&[Kind::Suspend, Kind::SnapshotRestored, Kind::Migrated]);
    for domain in [domain(), domain().without_log()] {
        assert_told(domain, kinds, 6.0, |machine| machine.suspend(6 * S, AsleepTsc::Stood));
    }
}

#[test]
fn the_date_set_forward_and_back() {
    for &source in Source::ALL {
        for s in [-3600, -1, 1, 3600] {
            let machine = Machine::new(source, true, DAYTIME);
            assert_told(machine, Kind::ClockSet.into(), s as f64, |machine| {
                machine.set_clock(s * S as i64);
            });
        }
    }
}

#[test]
fn a_leap_second_in_and_out() {
    for &source in Source::ALL {
        for (by_s, state, bit) in [(-1, 1, 0x10), (1, 2, 0x20)] {
            let mut machine = Machine::new(source, true, DAY - 7 * S - 400 * MS);
            machine.announce_leap(state, bit);
            assert_told(machine, Kind::LeapSecond.into(), by_s as f64, |machine| {
                machine.leap(by_s);
            });
        }
    }
}

/// One set forward to another time cannot be told from a machine that stood: what is told
/// contains it.
#[test]
fn an_rtc_that_is_set_ahead() {
    for (machine, kinds) in [
        (emulated(Source::Tsc), STOOD_OR_RTC_SET),
        (emulated(Source::Hpet), STOOD_OR_RTC_SET),
        (kvm(), STOOD_OR_RTC_SET),
        (Machine::new(Source::Tsc, true, DAYTIME), PAUSED_OR_RTC_SET),
    ] {
        assert_told(machine, kinds, 100.0, |machine| machine.set_rtc_error(100));
    }
    // This process alone was stopped meanwhile: that is no machine that stood.
    assert_told(emulated(Source::Hpet), STOOD_OR_RTC_SET, 100.0, |machine| {
        machine.stop_process(3 * S, true);
        machine.set_rtc_error(100);
    });
}

/// To the time of day, or backward.
#[test]
fn an_rtc_that_is_set() {
    for (source, before_s, after_s) in [(Source::Tsc, 40, 0), (Source::Hpet, 0, -3600)] {
        let mut machine = emulated(source);
        machine.set_rtc_error(before_s);
        assert_kinds(machine, &[], |machine| machine.set_rtc_error(after_s));
    }
}

/// The kernel wrote the time of day to the RTC before the clock was corrected, and does so
/// again after it: seen in a machine under QEMU, stopped for 2 s just after parachrond had
/// found its clock right.
#[test]
fn an_rtc_that_follows_a_correction() {
    for (pause_ms, behind_s) in [(2000, 2), (2600, 3), (60_000, 60)] {
        for late_ms in [0, 300, 900, 1500] {
            let mut watch = Watch::begin(emulated(Source::Hpet));
            watch.watch(7 * S);
            watch.inject(0.4, |machine| machine.pause(pause_ms * MS, Running::Nothing));
            watch.watch(600 * MS);
            watch.inject(0.4, |machine| machine.set_rtc_error(-behind_s));
            watch.watch(2 * S);
            watch.inject(0.4, |machine| machine.set_clock((pause_ms * MS) as i64));
            watch.watch(late_ms * MS);
            watch.inject(0.4, |machine| machine.set_rtc_error(0));
            watch.watch(10 * S);
            let kinds: Vec<_> = watch.reported.iter().map(|(_, one)| one.kinds).collect();
            let expected = [STOOD_OR_RTC_SET, Kind::ClockSet.into()];
            assert_eq!(kinds, expected, "{pause_ms} {late_ms}: {:#?}", watch.reported);
        }
    }
}

#[test]
fn a_pause_after_a_correction() {
    for pause_ms in [1200, 1600, 1900, 5000] {
        let mut watch = Watch::begin(emulated(Source::Hpet));
        watch.watch(7 * S);
        watch.inject(0.4, |machine| machine.pause(pause_ms * MS, Running::Nothing));
        watch.watch(2 * S);
        watch.inject(0.4, |machine| machine.set_clock((pause_ms * MS) as i64));
        watch.watch(2 * S);
        watch.inject(0.4, |machine| machine.pause(pause_ms * MS, Running::Nothing));
        watch.watch(10 * S);
        let kinds: Vec<_> = watch.reported.iter().map(|(_, one)| one.kinds).collect();
        let expected = [STOOD_OR_RTC_SET, Kind::ClockSet.into(), STOOD_OR_RTC_SET];
        assert_eq!(kinds, expected, "{:#?}", watch.reported);
    }
}

#[test]
fn a_source_that_is_switched() {
    for (from, to) in [(Source::Tsc, Source::Hpet), (Source::Hpet, Source::AcpiPm)] {
        assert_kinds(emulated(from), &[Kind::SourceSwitched.into()], |machine| {
            machine.switch_source(to);
        });
    }
}

/// The other CPU's TSC is 2.2 µs ahead, or a second.
#[test]
fn a_cpu_taken_away_and_brought_back() {
    for ahead_cycles in [4400, 2 * S] {
        assert_kinds(emulated(Source::Hpet), &[], |machine| machine.take_cpu_away(ahead_cycles));
        let mut watch = Watch::begin(emulated(Source::Hpet));
        watch.watch(5 * S);
        watch.inject(0.3, |machine| machine.take_cpu_away(ahead_cycles));
        watch.watch(5 * S);
        watch.inject(0.3, Machine::bring_cpu_back);
        watch.watch(5 * S);
        assert!(watch.reported.is_empty(), "{:#?}", watch.reported);
        assert_eq!(watch.steps, 0);
    }
}

#[test]
fn chronyd_slewing_and_stepping() {
    for &source in Source::ALL {
        let mut watch = Watch::begin(Machine::new(source, true, DAYTIME));
        watch.watch(5 * S);
        for tick_us in [10_833, 10_000, 9_167, 10_000] {
            watch.machine.slew_by_tick(tick_us);
            watch.watch(2 * S);
        }
        watch.machine.set_clock(-37 * MS as i64);
        watch.watch(2 * S);
        let kinds: Vec<_> = watch.reported.iter().map(|(_, one)| one.kinds.only()).collect();
        let steered = Some(Kind::Steered);
        let expected = [steered, steered, steered, steered, Some(Kind::ClockSet)];
        assert_eq!(kinds, expected, "{source:?}: {:#?}", watch.reported);
    }
}

/// Each change of the CPU's frequency changes the page's scale.
#[test]
fn a_host_without_constant_tsc() {
    let mut watch = Watch::begin(kvm().without_master_clock());
    watch.watch(5 * S);
    for ghz in [1.2, 2.0, 0.8, 2.0, 3.1, 1.9999] {
        watch.inject(0.6, |machine| machine.scale_cpu((ghz * 1e9) as u64));
        watch.watch(2 * S);
    }
    assert!(watch.reported.is_empty(), "{:#?}", watch.reported);
    // With a master clock it is another host's TSC.
    assert_kinds(kvm(), &[MOVED], |machine| machine.other_tsc(2_100_000_000));
    assert_kinds(kvm(), &[], |machine| machine.other_tsc(2_000_010_000));
}

/// `keep` stepped the clock by +5.001 s, and 0.6 s later told of the same pause
/// again, by its RTC (QEMU 10, `stop` and `cont`).
#[test]
fn a_clock_that_is_set_right_after_a_pause_was_paused_once() {
    let cases: [(fn() -> Machine, Running); 2] =
        [(kvm, Running::Tsc), (|| emulated(Source::Tsc), Running::Nothing)];
    for (machine, running) in cases {
        for (after_ms, part) in (0..=1500).step_by(100).zip([0.1, 0.5, 0.9].into_iter().cycle()) {
            let mut watch = Watch::begin(machine());
            watch.watch(7 * S);
            watch.inject(part, |machine| machine.pause(5 * S, running));
            watch.watch(after_ms * MS);
            watch.inject(part, |machine| machine.set_clock(5 * S as i64));
            watch.watch(10 * S);
            let told: Vec<Kinds> = watch.reported.iter().map(|(_, one)| one.kinds).collect();
            let count = |kind: Kind| told.iter().filter(|kinds| kinds.contains(kind)).count();
            assert_eq!(count(Kind::Pause), 1, "{after_ms} ms: {:#?}", watch.reported);
            assert_eq!(count(Kind::ClockSet), 1, "{after_ms} ms: {:#?}", watch.reported);
            assert_eq!(told.len(), 2, "{after_ms} ms: {:#?}", watch.reported);
        }
    }
}
