//! Each row by its example, and messages as kernels of each generation wrote them.

use std::collections::BTreeSet;

use super::*;

/// Each example is read by its own row; each kind of event has one.
#[test]
fn each_row_reads_its_example() {
    let (mut row, mut kinds, mut shown) = (0, BTreeSet::new(), BTreeSet::new());
    for line in MESSAGES.lines().take_while(|line| *line != "== trouble") {
        if let Some(example) = line.strip_prefix("    ") {
            let program = CATALOGUE.rows[row - 1].programs[0];
            let reading = CATALOGUE.read(super::super::line::split(example).text, Some(program));
            assert!(reading.event.is_some(), "{example}: {reading:?}");
            assert_eq!(reading.row, row - 1, "{example}: {reading:?}");
            shown.insert(CATALOGUE.rows[row - 1].event);
        } else if line.contains(" | ") && !line.starts_with(['#', '=']) {
            kinds.insert(CATALOGUE.rows[row].event);
            row += 1;
        }
    }
    assert_eq!(row, CATALOGUE.rows.len());
    assert!(row <= signs::MOST_ROWS, "{row} rows");
    let without: Vec<_> = kinds.difference(&shown).collect();
    assert!(without.is_empty(), "without an example: {without:?}");
}

/// Wherever a message is cut off after its first word, the row notices.
#[test]
fn a_message_that_is_cut_off_is_unfinished() {
    for example in MESSAGES.lines().filter_map(|line| line.strip_prefix("    ")) {
        let whole = CATALOGUE.read(example, None);
        if let Some(LogEvent::MarkedUnstable { .. } | LogEvent::DaemonStepped { .. }) = whole.event
        {
            let message = &example[whole.start..];
            for length in message.find(' ').unwrap_or(0).max(6)..message.len() {
                let cut = &example[..whole.start + length];
                let reading = CATALOGUE.read(cut, None);
                let is_read = matches!(
                    reading.event,
                    Some(LogEvent::MarkedUnstable { .. } | LogEvent::DaemonStepped { .. })
                );
                // Such a line waits for its rest too.
                let is_quote = cut.ends_with('\'');
                assert!(reading.is_unfinished || is_read || is_quote, "{cut}: {reading:?}");
            }
        }
    }
}

fn unstable(clocksource: &str, because: &str) -> Option<LogEvent> {
    let (clocksource, because) = (clocksource.to_owned(), because.to_owned());
    Some(LogEvent::MarkedUnstable { clocksource, because })
}

fn interval(watchdog: bool, clocksource: &str, interval_ns: Option<u64>) -> Option<LogEvent> {
    let clocksource = clocksource.to_owned();
    Some(LogEvent::WatchdogInterval { watchdog, clocksource, interval_ns })
}

#[test]
fn the_watchdog_before_4_0() {
    assert_eq!(
        parse("Clocksource tsc unstable (delta = -250013288 ns)"),
        unstable("tsc", "delta = -250013288 ns")
    );
    assert_eq!(
        parse("Marking TSC unstable due to cpufreq changes"),
        unstable("tsc", "cpufreq changes")
    );
    assert_eq!(
        parse("Marking TSC unstable due to: possible TSC halt in C2."),
        unstable("tsc", "possible TSC halt in C2")
    );
    assert_eq!(
        parse("Radical host time change: 3 600 000 000 000ns (HostNow=1 ns HostLast=2 ns)"),
        Some(LogEvent::HostTimeJumped { by_ns: 3_600_000_000_000 })
    );
    assert_eq!(
        parse("Frequency : 12.345 ppm fast"),
        Some(LogEvent::DaemonFrequency { ppm: 12.345 })
    );
    // It is from the drift file, of a former run.
    assert_eq!(parse("Initial frequency -12.345 ppm"), Some(LogEvent::Harmless));
    assert_eq!(parse("System clock interference detected"), Some(LogEvent::ClockInterference));
    // Jiri Wiesner, LKML, February 2026: a kernel with a second watchdog.
    assert_eq!(
        parse(
            "clocksource:                       'hpet' wd2_nsec: 512005960 wd2_now: 65892719 \
             wd2_last: 64c5d684 mask: ffffffff"
        ),
        Some(LogEvent::SecondReference {
            clocksource: "hpet".into(),
            interval_ns: Some(512_005_960)
        })
    );
    assert_eq!(
        parse("cs_watchdog_read: 7 callbacks suppressed"),
        Some(LogEvent::WatchdogSuppressed { messages: 7 })
    );
    assert_eq!(parse("net_ratelimit: 7 callbacks suppressed"), None);
    assert_eq!(parse("CPU3 has been hot-added"), Some(LogEvent::CpuAdded));
    assert_eq!(
        parse("kvm: SMP vm created on host with unstable TSC; guest TSC will not be reliable"),
        Some(LogEvent::GuestTscUnreliable)
    );
    assert_eq!(
        parse("hv_utils: TimeSync: stale time stamp, 5012345678 nsecs old"),
        Some(LogEvent::HostTimeStale { age_ns: 5_012_345_678 })
    );
    assert_eq!(
        parse("Switching to clocksource hpet"),
        Some(LogEvent::Switched { to: "hpet".into() })
    );
    assert_eq!(
        parse(
            "Override clocksource acpi_pm is not HRT compatible. Cannot switch while in HRT/NOHZ mode"
        ),
        Some(LogEvent::Other)
    );
}

#[test]
fn the_watchdog_from_4_0_to_5_12() {
    assert_eq!(
        parse(
            "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:"
        ),
        unstable("tsc", "the skew is too large")
    );
    assert_eq!(
        parse(
            "clocksource:                       'hpet' wd_now: 24f422b8 wd_last: 247dea41 mask: ffffffff"
        ),
        interval(true, "hpet", None)
    );
    assert_eq!(
        parse(
            "clocksource:                       'tsc' cs_now: 144d927c4e cs_last: 140ba6e2a0 mask: ffffffffffffffff"
        ),
        interval(false, "tsc", None)
    );
    assert_eq!(
        parse("tsc: Marking TSC unstable due to clocksource watchdog"),
        unstable("tsc", "clocksource watchdog")
    );
    assert_eq!(
        parse("TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'."),
        Some(LogEvent::TscFault)
    );
    assert_eq!(
        parse("sched_clock: Marking unstable (26553416234, 4203921)<-(26567277071, -9656937)"),
        Some(LogEvent::Other)
    );
}

#[test]
fn the_watchdog_from_5_13_to_7_0() {
    assert_eq!(
        parse(
            "clocksource:                       'hpet' wd_nsec: 495997815 wd_now: 36f24f3 wd_last: 302c799 mask: ffffffff"
        ),
        interval(true, "hpet", Some(495_997_815))
    );
    assert_eq!(
        parse(
            "clocksource:                       'tsc' cs_nsec: 497721239 cs_now: 1ea2752100 cs_last: 1e43b3e700 mask: ffffffffffffffff"
        ),
        interval(false, "tsc", Some(497_721_239))
    );
    assert_eq!(
        parse(
            "clocksource:                       Clocksource 'tsc' skewed 1723424 ns (1 ms) over watchdog 'hpet' interval of 495997815 ns (495 ms)"
        ),
        Some(LogEvent::Skew {
            clocksource: "tsc".into(),
            skew_ns: 1_723_424,
            interval_ns: 495_997_815
        })
    );
    // Kernels before 6.5 print a negative skew's milliseconds as 2^64.
    assert_eq!(
        parse(
            "clocksource:                       Clocksource 'tsc' skewed -878159 ns (18446744073708 ms) over watchdog 'hpet' interval of 511999996 ns (511 ms)"
        ),
        Some(LogEvent::Skew {
            clocksource: "tsc".into(),
            skew_ns: -878_159,
            interval_ns: 511_999_996
        })
    );
    assert_eq!(
        parse("clocksource:                       'hpet' (not 'tsc') is current clocksource."),
        Some(LogEvent::Switched { to: "hpet".into() })
    );
}

#[test]
fn a_watchdog_that_came_late() {
    let delayed = |delay_ns| Some(LogEvent::WatchdogDelayed { delay_ns });
    assert_eq!(
        parse(
            "clocksource: timekeeping watchdog on CPU0: wd-tsc-wd excessive read-back delay of 1000880ns vs. limit of 125000ns, wd-wd read-back delay only 46ns, attempt 3, marking tsc unstable"
        ),
        delayed(Some(1_000_880))
    );
    assert_eq!(
        parse(
            "clocksource: timekeeping watchdog on CPU2: hpet read-back delay of 216533ns, attempt 4, marking unstable"
        ),
        delayed(Some(216_533))
    );
    assert_eq!(
        parse("clocksource: timekeeping watchdog on CPU1: hpet wd-wd read-back delay of 125713ns"),
        delayed(Some(125_713))
    );
    assert_eq!(
        parse("clocksource: wd-tsc-wd read-back delay of 239619ns, clock-skew test skipped!"),
        delayed(Some(239_619))
    );
    assert_eq!(
        parse(
            "clocksource: timekeeping watchdog on CPU0: kvm-clock retried 2 times before success"
        ),
        delayed(None)
    );
    assert_eq!(
        parse(
            "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 2247936849 wd_nsec: 2247937071"
        ),
        Some(LogEvent::WatchdogSkipped { clock_ns: 2_247_936_849, reference_ns: 2_247_937_071 })
    );
    assert_eq!(
        parse("clocksource: Watchdog hpet read timed out. Readout sequence took: 78900ns"),
        delayed(Some(78_900))
    );
    assert_eq!(parse("clocksource: Watchdog remote CPU 3 read timed out"), delayed(None));
}

#[test]
fn the_watchdog_since_7_1() {
    assert_eq!(
        parse("clocksource: Marking clocksource tsc unstable due to frequency skew"),
        unstable("tsc", "frequency skew")
    );
    assert_eq!(
        parse("clocksource: Watchdog               kvm-clock interval:        503995129ns"),
        interval(true, "kvm-clock", Some(503_995_129))
    );
    assert_eq!(
        parse("clocksource: Clocksource                  tsc interval:       1894661885ns"),
        interval(false, "tsc", Some(1_894_661_885))
    );
    assert_eq!(
        parse("clocksource: Marking clocksource tsc unstable due to inter CPU skew"),
        unstable("tsc", "inter CPU skew")
    );
    assert_eq!(
        parse("clocksource: CPU1     203498172390 < CPU0     203498172881 (cycles)"),
        Some(LogEvent::TscFault)
    );
}

#[test]
fn frequencies_and_faults_of_the_tsc() {
    let frequency = |hz, refined| Some(LogEvent::TscFrequency { hz, refined });
    assert_eq!(parse("tsc: Detected 2445.428 MHz processor"), frequency(2_445_428_000, false));
    assert_eq!(parse("Detected 3199.964 MHz processor."), frequency(3_199_964_000, false));
    assert_eq!(parse("tsc: Detected 2899.886 MHz TSC"), frequency(2_899_886_000, false));
    assert_eq!(
        parse("tsc: Refined TSC clocksource calibration: 2659.981 MHz"),
        frequency(2_659_981_000, true)
    );
    assert_eq!(parse("tsc: Detected nan MHz processor"), Some(LogEvent::Other));
    assert_eq!(parse("tsc: Detected 1e300 MHz processor"), Some(LogEvent::Other));
    for fault in [
        "[Firmware Bug]: TSC doesn't count with P0 frequency!",
        "tsc: Fast TSC calibration failed",
        "Fast TSC calibration failed",
        "TSC synchronization [CPU#0 -> CPU#1]:",
        "Measured 84135 cycles TSC warp between CPUs, turning off TSC clock.",
        "[Firmware Bug]: TSC ADJUST differs: CPU15 45960750 --> 78394770. Restoring",
        "[Firmware Bug]: TSC ADJUST: CPU0: -4611686018427387904 force to 0",
    ] {
        assert_eq!(parse(fault), Some(LogEvent::TscFault), "{fault}");
    }
    let passed = "checking TSC synchronization [CPU#0 -> CPU#1]: passed.";
    assert_eq!(parse(passed), Some(LogEvent::Harmless));
}

#[test]
fn the_generic_timer_of_arm64() {
    let frequency = |hz| Some(LogEvent::CounterFrequency { hz });
    for (line, expected) in [
        ("arch_timer: cp15 timer running at 1000.00MHz (virt).", frequency(1_000_000_000)),
        (
            "arch_timer: cp15 and mmio timer(s) running at 62.50MHz (phys/virt).",
            frequency(62_500_000),
        ),
        ("arch_timer: CPU0: Trapping CNTVCT access", Some(LogEvent::CounterTrapped)),
        ("arch_timer: cp15 timer running at 9e9MHz (virt).", Some(LogEvent::Other)),
        ("smccc: KVM: hypervisor services detected (0x0 0x0 0x0 0x3)", Some(LogEvent::Harmless)),
    ] {
        assert_eq!(parse(line), expected, "{line}");
    }
}

#[test]
fn what_befell_the_machine() {
    let cases = [
        ("kvm-clock: Using msrs 4b564d01 and 4b564d00", LogEvent::KvmClock),
        ("random: crng reseeded due to virtual machine fork", LogEvent::Restored),
        ("PM: suspend exit", LogEvent::Resumed),
        ("PM: suspend exit 2016-08-28 13:31:32.679217193 UTC", LogEvent::Resumed),
        ("hrtimer: interrupt took 30841560 ns", LogEvent::HrtimerLate { took_ns: 30_841_560 }),
        ("Clock: inserting leap second 23:59:60 UTC", LogEvent::LeapSecond),
        (
            "rtc_cmos 00:01: setting system clock to 2025-10-13T17:07:56 UTC (1760375276)",
            LogEvent::Rtc { unix_s: Some(1_760_375_276) },
        ),
        (
            "48:rtc: setting system clock to 2000-01-01T00:00:01 UTC",
            LogEvent::Rtc { unix_s: Some(946_684_801) },
        ),
        (
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [withheld]",
            LogEvent::CpuStuck { cpu: 0, for_s: Some(26) },
        ),
        (
            "BUG: soft lockup - CPU#0 stuck for 61s! [mv:5593]",
            LogEvent::CpuStuck { cpu: 0, for_s: Some(61) },
        ),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", LogEvent::Stall),
        ("INFO: rcu_sched detected stalls on CPUs/tasks:", LogEvent::Stall),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", LogEvent::Stall),
        ("clocksource: Switched to clocksource tsc", LogEvent::Switched { to: "tsc".into() }),
    ];
    for (text, event) in cases {
        assert_eq!(parse(text), Some(event), "{text}");
    }
}

#[test]
fn what_programs_write_and_other_lines_are_left_out() {
    for text in [
        "systemd[1]: Set hostname to <secret>.",
        "systemd[1]: clocksource: Switched to clocksource tsc",
        "EXT4-fs (vda): mounted filesystem r/w",
        "usb 1-1.2: SerialNumber: 00e04c000001",
        "random: crng init done",
        "",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn times_are_read_as_programs_write_them() {
    for (text, s) in [
        ("37 s in the future", 37.0),
        ("4d 11h 23min 36s)", 386_616.0),
        ("8m0.640985013s\"", 480.640_985_013),
        ("5 milliseconds", 0.005),
        ("1.2s/1200ms]", 1.2),
        ("2 hours, 3 minutes", 7_380.0),
        ("500ms away", 0.5),
    ] {
        let (read, _) = parse_duration(text).unwrap_or_default();
        assert!((read - s).abs() < 1e-9 * s, "{text}: {read}");
    }
    for text in ["5m tall", "12:30:01", "7", "", "192.0.2.1 s", "3 sources"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}
