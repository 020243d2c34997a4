use super::*;

const OLD: Version = Version(5, 10, 223);
const MARGINS: Version = Version(6, 1, 176);
const LATER: Version = Version(6, 12, 101);
const NEW: Version = Version(7, 2, 13);

fn watchdog(version: Version, watched: ClockSource, reference: ClockSource) -> Watchdog {
    Watchdog::new(Kernel::new(version, 250), watched, reference, 2)
}

/// A TSC of 1 GHz and ACPI's timer, read at once in so many ns.
fn tsc_by_acpi_pm(version: Version) -> Watchdog {
    watchdog(version, ClockSource::tsc(1_000_000, true, false), ClockSource::acpi_pm())
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
            assert_eq!(watchdog.check(|| readout(0, 0, 0, 0)), Verdict::Started);
            let now = INTERVAL_NS;
            watchdog.check(|| readout(now, now + gain_ns, 0, 0)).is_unstable()
        };
        // Within a count of the timer, 279 ns, and what the interval grows by.
        assert_eq!((at(limit_ns - 1500), at(limit_ns + 1500)), (false, true), "{version:?}");
    }
}

#[test]
fn a_source_whose_rate_was_not_measured_is_given_more_by_7_2() {
    let early = ClockSource::tsc_early(1_000_000);
    let limit =
        |version| watchdog(version, early, ClockSource::hpet(100_000_000)).limit_ns(INTERVAL_NS, 7);
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
        (tries, verdict.is_unstable(), verdict.next_ns(Kernel::new(version, 250)))
    };
    let half = INTERVAL_NS;
    assert_eq!(slow(OLD, 0), (1, false, half));
    assert_eq!(slow(MARGINS, 0), (2, true, half));
    assert_eq!(slow(LATER, 0), (2, true, half));
    assert_eq!(slow(MARGINS, 60_000), (1, false, half + LEFT_ALONE_NS));
    assert_eq!(slow(LATER, 60_000), (2, true, half));
    assert_eq!(slow(LATER, 260_000), (1, false, half + LEFT_ALONE_NS));
    assert_eq!(slow(NEW, 0), (3, false, half));
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
        assert!(matches!(verdict, Verdict::TooLong { .. }), "{version:?}: {verdict:?}");
    }
}

#[test]
fn a_cpu_behind_another_is_seen() {
    let kernel = Kernel::new(NEW, 250);
    let tsc = ClockSource::tsc(1_000_000, true, false);
    assert!(!goes_back(kernel, &tsc, 1000, 1000));
    assert!(goes_back(kernel, &tsc, 1000, 999));
}
