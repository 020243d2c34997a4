use super::*;

/// Between two checks, ns.
const INTERVAL_NS: u64 = 500_000_000;

const OLD: Version = Version(5, 10, 223);
const MARGINS: Version = Version(6, 1, 176);
const LATER: Version = Version(6, 12, 101);
const NEW: Version = Version(7, 2, 13);

fn watchdog(
    version: Version,
    watched: KernelClockSource,
    reference: KernelClockSource,
) -> Watchdog {
    Watchdog::new(LinuxKernel::new(version, 250), watched, reference, 2)
}

/// A TSC of 1 GHz and ACPI's timer, read at once in so many ns.
fn tsc_by_acpi_pm(version: Version) -> Watchdog {
    watchdog(version, KernelClockSource::tsc(1_000_000), KernelClockSource::acpi_pm())
}

fn acpi_pm(ns: u64) -> u64 {
    ns * 3_579_545 / 1_000_000_000
}

fn readout(ns: u64, tsc: u64, readout_ns: u64, alone_ns: u64) -> Readout {
    let [reference, after, again] = [ns, ns + readout_ns, ns + readout_ns + alone_ns].map(acpi_pm);
    Readout { reference, watched: tsc, after, again }
}

#[test]
fn each_version_gives_up_where_its_source_says() {
    for (version, limit_ns) in
        [(OLD, 62_500_000), (MARGINS, 400_000), (LATER, 500_000), (NEW, 244_140)]
    {
        let at = |gain_ns: u64| {
            let mut watchdog = tsc_by_acpi_pm(version);
            assert_eq!(watchdog.check(|| readout(0, 0, 0, 0)), WatchdogVerdict::Started);
            let now = INTERVAL_NS;
            watchdog.check(|| readout(now, now + gain_ns, 0, 0)).is_unstable()
        };
        // Within a count of the timer, 279 ns, and what the interval grows by.
        assert_eq!((at(limit_ns - 1500), at(limit_ns + 1500)), (false, true), "{version:?}");
    }
}

#[test]
fn a_source_whose_rate_was_not_measured_is_given_more_by_7_2() {
    let early = KernelClockSource::tsc_early(1_000_000);
    let limit = |version| {
        watchdog(version, early, KernelClockSource::hpet(100_000_000)).limit_ns(INTERVAL_NS, 7)
    };
    assert_eq!(limit(NEW), INTERVAL_NS / 256 + 7);
    assert_eq!(limit(MARGINS), 32_000_000 + 200_000);
}

#[test]
fn a_slow_readout_is_retried_and_then_each_version_does_its_own() {
    let slow = |version, alone_ns: u64| {
        let mut watchdog = tsc_by_acpi_pm(version);
        let mut tries = 0;
        let verdict = watchdog.check(|| {
            tries += 1;
            readout(0, 0, 1_000_000, alone_ns)
        });
        (tries, verdict.is_unstable(), matches!(verdict, WatchdogVerdict::TooSlow { .. }))
    };
    assert_eq!(slow(OLD, 0), (1, false, false));
    assert_eq!(slow(MARGINS, 0), (2, true, false));
    assert_eq!(slow(LATER, 0), (2, true, false));
    assert_eq!(slow(MARGINS, 60_000), (1, false, true));
    assert_eq!(slow(LATER, 60_000), (2, true, false));
    assert_eq!(slow(LATER, 260_000), (1, false, true));
    assert_eq!(slow(NEW, 0), (3, false, true));
}

#[test]
fn a_machine_that_stood_is_the_old_watchdogs_false_alarm() {
    // 5 s without a check: the timer went round at 4.687 s.
    let stood = |version| {
        let mut watchdog = tsc_by_acpi_pm(version);
        watchdog.check(|| readout(0, 0, 0, 0));
        watchdog.check(|| readout(5_000_000_000, 5_000_000_000, 0, 0))
    };
    assert!(stood(OLD).is_unstable());
    for version in [MARGINS, LATER, NEW] {
        let verdict = stood(version);
        assert!(matches!(verdict, WatchdogVerdict::TooLong { .. }), "{version:?}: {verdict:?}");
    }
}

/// What a version makes of the readings, reference and TSC, that a kernel printed
/// when it gave its TSC up.
fn judged(
    version: Version,
    reference: KernelClockSource,
    tsc_khz: u64,
    [was, now]: [(u64, u64); 2],
) -> WatchdogVerdict {
    let mut watchdog = watchdog(version, KernelClockSource::tsc(tsc_khz), reference);
    let at =
        |(reference, watched)| Readout { reference, watched, after: reference, again: reference };
    watchdog.check(|| at(was));
    watchdog.check(|| at(now))
}

#[test]
fn a_check_that_came_late_is_judged_by_old_kernels_alone() {
    // oxidecomputer/propolis#328: Linux 5.10 in a guest, 3 s late, so that the
    // timer's counts passed half of its range and counted as nothing.
    let readings = [(0x6c_50c5, 0x1ca0_b7a5_0c00), (0xf_4b7d, 0x1ca3_24f6_2cac)];
    let by = |version| judged(version, KernelClockSource::acpi_pm(), 3_493_000, readings);
    let WatchdogVerdict::UnstableSkew { skew_ns, .. } = by(OLD) else { panic!("{:?}", by(OLD)) };
    assert_eq!(skew_ns / 1_000_000, 2984);
    assert!(matches!(by(MARGINS), WatchdogVerdict::TooLong { .. }));
    assert!(matches!(by(NEW), WatchdogVerdict::TooLong { .. }));
}

#[test]
fn a_timer_that_wrapped_gives_the_skew_that_the_kernel_printed() {
    // LKFT, 6.3-rc1 in QEMU: "skewed 4687076445 ns (4687 ms) over watchdog
    // 'acpi_pm' interval of 633206175 ns", at a rate that gives its cs_nsec.
    let readings = [(0xf1_68b4, 0x19_231a_48ea), (0x13_fe92, 0x1c_bab6_bece)];
    let by = |version| judged(version, KernelClockSource::acpi_pm(), 2_899_943, readings);
    let verdict = by(Version(6, 3, 0));
    let WatchdogVerdict::UnstableSkew { skew_ns, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(skew_ns / 1_000_000, 4687);
    assert!(matches!(by(LATER), WatchdogVerdict::TooLong { .. }));
}

#[test]
fn a_tsc_that_is_slow_is_given_up_by_all_since_the_margins() {
    // Linux 6.14-rc4 on a ThinkPad: "skewed -3757175 ns (-3 ms) over watchdog
    // 'hpet' interval of 499760653 ns".
    let readings = [(0x14b_7d82, 0x6_29a4_0ae8), (0x1b8_ad51, 0x6_6814_158c)];
    let hpet = KernelClockSource::hpet(14_318_180);
    for version in [MARGINS, Version(6, 14, 0), NEW] {
        let verdict = judged(version, hpet, 2_111_941, readings);
        let WatchdogVerdict::UnstableSkew { skew_ns, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(skew_ns / 1000, -3757, "{version:?}");
    }
    assert_eq!(judged(OLD, hpet, 2_111_941, readings), WatchdogVerdict::Fine);
}

#[test]
fn a_reference_that_answers_all_ones_costs_the_tsc_its_place() {
    // Khlebnikov, May 2019: HPETs that jump to 0xffffffff, on kernels before 5.14.
    let readings = [(0x19ec_5720, 0x69b8_62c9_947d), (0xffff_ffff, 0x69b8_a15f_0aed)];
    // Nine tenths of the range ahead is a step back, which counts as nothing.
    let verdict = judged(OLD, KernelClockSource::hpet(24_000_000), 2_100_000, readings);
    assert!(verdict.is_unstable(), "{verdict:?}");
}
