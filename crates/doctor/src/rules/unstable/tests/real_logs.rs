//! Logs that people published, as their kernels wrote them.

use facts::Fact;
use facts::Facts;
use facts::kernel;

use super::RULE;
use crate::testing::{finding_text, healthy_bare_metal, set_source};

/// A server of unknown TSC rate with this log.
fn server(log_text: &str) -> Facts {
    let mut facts = healthy_bare_metal();
    set_source(&mut facts, "hpet", "hpet acpi_pm");
    facts.cpu.cpuid_tsc_hz = crate::testing::missing("CPUID");
    facts.kernel.log = kernel::parse_log(log_text);
    facts
}

/// What the rule says of a log, which must give its figures.
fn said(facts: &Facts) -> String {
    let text = finding_text(facts, None, RULE);
    assert!(!text.contains("figures are not in the log"), "{text}");
    text
}

fn has(text: &str, parts: &[&str]) {
    // Groups of digits are set apart by narrow spaces.
    let plain = text.replace('\u{202f}', " ");
    for part in parts {
        assert!(plain.contains(part), "no {part:?} in {plain}");
    }
}

/// oxidecomputer/propolis#328, Linux 5.10 in a guest on a Ryzen 9 3950X, whose
/// TSC runs at 3.493 GHz: the check came 3 s late, over half of the timer's
/// range.
const LATE_BY_3_S: &str = "\
[ 8996.144253] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:
[ 8996.144260] clocksource:                       'acpi_pm' wd_now: f4b7d wd_last: 6c50c5 mask: ffffff
[ 8996.144261] clocksource:                       'tsc' cs_now: 1ca324f62cac cs_last: 1ca0b7a50c00 mask: ffffffffffffffff
[ 8996.144274] tsc: Marking TSC unstable due to clocksource watchdog
[ 8996.144401] TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.
";

#[test]
fn a_check_over_half_of_the_range_late_acquits_the_tsc() {
    let mut facts = server(LATE_BY_3_S);
    let text = said(&facts);
    let estimate = "the TSC ran at 3.49 GHz, estimated from the two";
    has(&text, &["the check came seconds late", "The reference counted 2.98 s", estimate]);
    has(&text, &["tsc=nowatchdog"]);
    // The rate by the name of the CPU settles it.
    facts.cpu.model = Fact::Known("Some CPU @ 3.49GHz".into());
    has(&said(&facts), &["With that count the two agree", "3 490 000 000 Hz from the CPU's name"]);
}

#[test]
fn a_parameter_that_trusts_the_tsc_is_not_blamed_for_a_late_check() {
    let mut facts = server(LATE_BY_3_S);
    crate::testing::boot_with(&mut facts, "tsc=reliable");
    let diagnosis = crate::diagnose(&facts, None);
    assert!(crate::testing::findings_of_rule(&diagnosis, "harmful-parameters").is_empty());
    let mut facts = server(FREQUENCY_SKEW);
    crate::testing::boot_with(&mut facts, "tsc=reliable");
    has(&finding_text(&facts, None, "harmful-parameters"), &["tsc=reliable does harm here"]);
}

#[test]
fn the_pm_timer_wrapped_once() {
    // LKFT, Linux 6.3-rc1 in QEMU on a busy host.
    let text = said(&server(
        "\
<4>[   41.883172] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
<4>[   41.885195] clocksource:                       'acpi_pm' wd_nsec: 633206175 wd_now: 13fe92 wd_last: f168b4 mask: ffffff
<4>[   41.886363] clocksource:                       'tsc' cs_nsec: 5320282620 cs_now: 1cbab6bece cs_last: 19231a48ea mask: ffffffffffffffff
<4>[   41.887503] clocksource:                       Clocksource 'tsc' skewed 4687076445 ns (4687 ms) over watchdog 'acpi_pm' interval of 633206175 ns (633 ms)
",
    ));
    has(&text, &["its reference wrapped", "1 wrap of the reference's counter", "every 4.69 s"]);
}

#[test]
fn without_a_rate_the_wraps_that_fit_are_named() {
    // fbelavenuto/arpl#244, Linux 4.4 under VMware.
    let text = said(&server(
        "\
[  384.258940] clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:
[  384.261201] clocksource: 'acpi_pm' wd_now: 8d5199 wd_last: 60e92e mask: ffffff
[  384.263168] clocksource: 'tsc' cs_now: 1981c973dc9 cs_last: 1940283c820 mask: ffffffffffffffff
",
    ));
    has(&text, &["3.20 GHz with 1 wrap of the reference's counter; 1.73 GHz with 2 wraps"]);
    // LKML, January 2018: Linux 4.15-rc7 out of memory.
    let text = said(&server(
        "\
[   40.351554] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
[   40.351854] clocksource:                       'acpi_pm' wd_now: ea5383 wd_last: 1125e2 mask: ffffff
[   40.352083] clocksource:                       'tsc' cs_now: 1b2db1039e cs_last: 158b342a09 mask: ffffffffffffffff
",
    ));
    has(&text, &["2.79 GHz with 1 wrap", "1.81 GHz with 2 wraps"]);
}

#[test]
fn an_hpet_of_which_the_log_has_no_frequency() {
    // "x86/quirks: Disable HPET on Intel Coffe Lake platforms": that HPET halts
    // in deep idle states.
    let coffee_lake = "\
clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:
clocksource:                       'hpet' wd_now: 24f422b8 wd_last: 247dea41 mask: ffffffff
clocksource:                       'tsc' cs_now: 144d927c4e cs_last: 140ba6e2a0 mask: ffffffffffffffff
";
    has(&said(&server(coffee_lake)), &["it differs from its reference", "ran at 2.04 GHz"]);
    let logged = format!("hpet0: 8 comparators, 64-bit 24.000000 MHz counter\n{coffee_lake}");
    has(&said(&server(&logged)), &["ran at 3.43 GHz", "hpet: 24 000 000 Hz from the kernel log"]);
    // sozu-proxy/sozu#500.
    let text = said(&server(
        "\
[335323.734091] clocksource: timekeeping watchdog on CPU5: Marking clocksource 'tsc' as unstable because the skew is too large:
[335323.737925] clocksource:                       'hpet' wd_now: 5ca548fd wd_last: 5932c25f mask: ffffffff
[335323.808006] clocksource:                       'tsc' cs_now: bb8a0f7168a0d4 cs_last: bb8a0f234df0c3 mask: ffffffffffffffff
",
    ));
    has(&text, &["it stopped or was set back", "or the reference jumped"]);
}

#[test]
fn a_tsc_that_something_wrote() {
    // cyring/CoreFreq#308: 10 hours and more at once.
    let text = said(&server(
        "\
[1346249.931484] clocksource: timekeeping watchdog on CPU17: Marking clocksource 'tsc' as unstable because the skew is too large:
[1346249.931486] clocksource:                       'hpet' wd_now: 9c5d0440 wd_last: 9bf64291 mask: ffffffff
[1346249.931487] clocksource:                       'tsc' cs_now: 103b19f57d0eb5 cs_last: fc461fd0ba3a6 mask: ffffffffffffffff
",
    ));
    has(&text, &["it jumped ahead", "something wrote to the TSC"]);
}

#[test]
fn a_reference_that_fails() {
    // LKML, Khlebnikov, May 2019: sudden jumps of HPETs to all ones.
    let silent = "\
timekeeping watchdog on CPU56: Marking clocksource 'tsc' as unstable because the skew is too large:
'hpet' wd_now: ffffffff wd_last: 19ec5720 mask: ffffffff
'tsc' cs_now: 69b8a15f0aed cs_last: 69b862c9947d mask: ffffffffffffffff
";
    let silent = silent
        .replace("timekeeping", "clocksource: timekeeping")
        .replace("\n'", "\nclocksource: '");
    has(&said(&server(&silent)), &["its reference did not answer", "all ones"]);
    // "x86/hpet: Undo the early counter is counting check", a Pentium D.
    let stands = "\
clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc-early' as unstable because the skew is too large:
clocksource:  'hpet' wd_now: 33 wd_last: 33 mask: ffffffff
";
    has(&said(&server(stands)), &["its reference stood still"]);
}

#[test]
fn timer_ticks_are_counted_by_the_configured_rate() {
    // "x86/tsc: Respect tsc command line paraemeter for clocksource_tsc_early":
    // there cs_nsec=1224152026 and wd_nsec=378942392.
    let log = "\
[    0.000000] tsc: Detected 2700.000 MHz processor
clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc-early' as unstable because the skew is too large:
clocksource: 'refined-jiffies' wd_now: fffb7018 wd_last: fffb6e9d mask: ffffffff
clocksource: 'tsc-early' cs_now: 68a6a7070f6a0 cs_last: 68a69ab6f74d6 mask: ffffffffffffffff
tsc: Marking TSC unstable due to clocksource watchdog
";
    let mut facts = server(log);
    if let Fact::Known(options) = &mut facts.kernel.configuration {
        options.insert("HZ".into(), "1000".into());
    }
    let text = said(&facts);
    has(&text, &["its reference counted timer ticks", "+845 ms in an interval of 379 ms"]);
    has(&text, &["refined-jiffies: 1 000 Hz from CONFIG_HZ"]);
}

#[test]
fn a_line_that_gives_the_skew_alone() {
    // A Threadripper PRO 5975WX: the skew is the whole interval.
    let text = said(&server(
        "\
clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:
clocksource:                       Clocksource 'tsc' skewed -485515617 ns (-485 ms) over watchdog 'acpi_pm' interval of 485515617 ns (485 ms)
",
    ));
    has(&text, &["it went backward", "Leave tsc unused"]);
    assert!(!text.contains("nowatchdog"), "{text}");
}

#[test]
fn a_bracketed_read_is_not_called_late() {
    // Linux 6.14-rc4 on a ThinkPad.
    let text = said(&server(
        "\
[    1.430684] tsc: Refined TSC clocksource calibration: 2111.941 MHz
[    2.126669] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:
[    2.128267] clocksource:                       'hpet' wd_nsec: 499760653 wd_now: 1b8ad51 wd_last: 14b7d82 mask: ffffffff
[    2.128877] clocksource:                       'tsc' cs_nsec: 496003478 cs_now: 66814158c cs_last: 629a40ae8 mask: ffffffffffffffff
[    2.129397] clocksource:                       Clocksource 'tsc' skewed -3757175 ns (-3 ms) over watchdog 'hpet' interval of 499760653 ns (499 ms)
",
    ));
    has(&text, &["its rate is -7 518 ppm off"]);
    assert!(!text.contains("nowatchdog"), "{text}");
}

/// Linux 7.1 or later on a server whose HPET runs apart from the TSC.
const FREQUENCY_SKEW: &str = "\
[ 7001.000000] clocksource: Marking clocksource tsc unstable due to frequency skew
[ 7001.000001] clocksource: Watchdog                    hpet interval:        503995129ns
[ 7001.000002] clocksource: Clocksource                  tsc interval:        508994661ns
[ 7001.000003] tsc: Marking TSC unstable due to clocksource watchdog
";

#[test]
fn the_rewritten_watchdog_is_never_silenced() {
    // The intervals of a guest under a debugger's breakpoint, Linux 7.1.
    let paused = FREQUENCY_SKEW.replace("508994661", "1894661885").replace("    hpet", "kvm-clock");
    let early = FREQUENCY_SKEW.replace("[ 7001", "[    3");
    for (log, short) in [
        (FREQUENCY_SKEW, "after 117 min it jumped by +5.00 ms in one check"),
        (&early, "its rate is +9 920 ppm off"),
        (&paused, "it jumped ahead"),
    ] {
        let text = said(&server(log));
        has(&text, &[short]);
        let offered = text.lines().any(|line| line.contains("Boot with tsc="));
        assert!(!offered && !text.contains("not at fault"), "{text}");
    }
}

#[test]
fn late_checks_are_a_finding_of_their_own() {
    // coolsnowwolf/lede#9028, Linux 5.15.
    let log = "\
[14669.048261] clocksource: timekeeping watchdog on CPU1: acpi_pm wd-wd read-back delay of 144431ns
[14669.056895] clocksource: wd-tsc-wd read-back delay of 124876ns, clock-skew test skipped!
[15392.532233] clocksource: timekeeping watchdog on CPU0: acpi_pm wd-wd read-back delay of 81295ns
[15392.539617] clocksource: wd-tsc-wd read-back delay of 549231ns, clock-skew test skipped!
";
    let mut old = server(log);
    old.load.uptime_s = facts::Fact::Known(90.0 * 86_400.0);
    let past = crate::testing::fine(&old, None, "watchdog-late");
    assert!(past.starts_with("no late check in the last 24 h"), "{past}");
    let text = finding_text(&server(log), None, "watchdog-late");
    has(&text, &["late or skipped 2 times, by up to 549 µs"]);
    crate::testing::fine(&healthy_bare_metal(), None, "watchdog-late");
}

#[test]
fn the_kernels_guess_at_a_verdict_is_no_fault_of_the_firmware() {
    crate::testing::fine(&server(LATE_BY_3_S), None, "tsc-firmware");
}

/// The sums are by hand from each line's counters: a tick of kvm-clock and xen is 1 ns.
#[test]
fn pages_of_hypervisors_have_known_ticks() {
    // kvm-clock: 0x77359400 = 2 000 000 000 − 0x59682f00 = 1 500 000 000: 500 ms;
    // the TSC of 2.6 GHz: 1 508 000 000 ticks = 580 ms. 80 ms are beyond 62.5.
    let log = "\
[    0.000000] tsc: Detected 2600.000 MHz processor
[  900.000000] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
[  900.000001] clocksource:                       'kvm-clock' wd_now: 77359400 wd_last: 59682f00 mask: ffffffffffffffff
[  900.000002] clocksource:                       'tsc' cs_now: 59e22b00 cs_last: 0 mask: ffffffffffffffff
";
    let text = said(&server(log));
    has(&text, &["TSC minus kvm-clock: +80.0 ms in an interval of 500 ms"]);
    has(&text, &["kvm-clock: 77359400 − 59682f00 = 500 000 000 ticks"]);
    // hyperv: 100 ns a tick, 0x4c4b40 = 5 000 000.
    let hyperv = log.replace(
        "'kvm-clock' wd_now: 77359400 wd_last: 59682f00",
        "'hyperv_clocksource_tsc_page' wd_now: 4c4b40 wd_last: 0",
    );
    has(&said(&server(&hyperv)), &["TSC minus hyperv_clocksource_tsc_page: +80.0 ms"]);
}

/// A guest that was stopped for 25 min: 0x15d3ef79800 = 1 500 000 000 000 ns by the page,
/// 0x38bcfffae00 = 3 899 024 977 408 cycles, at 2.6 GHz 1499.6 s, by the TSC.
#[test]
fn a_check_so_late_that_the_arithmetic_overflows_acquits_the_tsc() {
    let text = said(&server(
        "\
[    0.000000] tsc: Detected 2600.000 MHz processor
[  900.000000] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
[  900.000001] clocksource:                       'kvm-clock' wd_now: 15d3ef79800 wd_last: 0 mask: ffffffffffffffff
[  900.000002] clocksource:                       'tsc' cs_now: 38bcfffae00 cs_last: 0 mask: ffffffffffffffff
",
    ));
    has(&text, &["the check came 25.0 min late, and the two clocks agree"]);
    has(&text, &["agree over 25.0 min", "most likely not at fault"]);
}

/// The page counts 0x4385411400 ns = 289.998 s, the TSC 0.5 s, and a CPU was added 2 s before.
#[test]
fn a_page_that_leaps_after_a_cpu_was_added_acquits_the_tsc() {
    let log = "\
[    0.000000] tsc: Detected 2600.000 MHz processor
[  898.000000] CPU2 has been hot-added
[  900.000000] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
[  900.000001] clocksource:                       'kvm-clock' wd_now: 4385411400 wd_last: 0 mask: ffffffffffffffff
[  900.000002] clocksource:                       'tsc' cs_now: 4d7c6d00 cs_last: 0 mask: ffffffffffffffff
";
    let text = said(&server(log));
    has(
        &text,
        &["its reference, the host's clock page, leapt by 289 s", "CPU2 has been hot-added"],
    );
    // Without that line the TSC may have stopped as well.
    let text = said(&server(&log.replace("[  898.000000] CPU2 has been hot-added\n", "")));
    has(&text, &["it stopped or was set back by 289 s", "the host slept", "Switch to kvm-clock"]);
}

/// Jiri Wiesner, LKML, February 2026: by the HPET 512 005 960 ns, by the TSC 512 006 458 ns,
/// by sgi_rtc 511 302 794 ns.
const SGI_RTC: &str = "\
clocksource: timekeeping watchdog on CPU118: Marking clocksource 'tsc' as unstable because the skew is too large:
clocksource: 'sgi_rtc' wd_nsec: 511302794 wd_now: 1cb50e4c4b wd_last: 1ca7097111 mask: ffffffffffffff
clocksource: 'hpet' wd2_nsec: 512005960 wd2_now: 65892719 wd2_last: 64c5d684 mask: ffffffff
clocksource: 'tsc' cs_nsec: 512006458 cs_now: 86b5982cb1 cs_last: 867581bbab mask: ffffffffffffffff
clocksource: Clocksource 'tsc' skewed 703664 ns (0 ms) over watchdog 'sgi_rtc' interval of 511302794 ns (511 ms)
";

#[test]
fn a_third_clock_shows_that_the_reference_is_wrong() {
    let text = said(&server(SGI_RTC));
    has(&text, &["its reference was off by -704 µs", "hpet agrees with the TSC"]);
}

/// Any figure that contradicts another is withdrawn, with the sum.
#[test]
fn lines_that_contradict_each_other_give_no_cause() {
    for (from, to, what) in [
        ("cs_nsec: 512006458", "cs_nsec: 512006459", "cs_nsec − wd_nsec is 703665 ns"),
        ("skewed 703664", "skewed 703654", "cs_nsec − wd_nsec is 703664 ns"),
        ("cs_now: 86b5982cb1", "cs_now: 96b5982cb1", "ticks of the TSC"),
        ("wd_now: 1cb50e4c4b", "wd_nnow: 1cb50e4c4b", "the line about 'sgi_rtc' has no readable"),
    ] {
        let text = said(&server(&SGI_RTC.replace(from, to)));
        has(&text, &["figures contradict each other", what]);
    }
}

/// 2009, Linux 2.6: one wrap of the PM timer is 2^24 / 3 579 545 Hz = 4.686968 s.
#[test]
fn a_lone_delta_of_a_wrap_acquits_the_tsc() {
    // Where there is an HPET, it is the reference.
    let by_pm_timer = |delta_ns: u64| {
        let mut facts = server(&format!("Clocksource tsc unstable (delta = {delta_ns} ns)\n"));
        set_source(&mut facts, "acpi_pm", "acpi_pm");
        said(&facts)
    };
    has(&by_pm_timer(4_687_619_986), &["its reference wrapped", "to within 651 µs"]);
    has(&by_pm_timer(9_373_936_000), &["2 wraps"]);
    assert!(!by_pm_timer(4_500_000_000).contains("wrap"));
}

/// 1 300 cycles at 2.6 GHz are 500 ns.
#[test]
fn a_warp_is_given_in_time() {
    let log = "\
[    0.000000] tsc: Detected 2600.000 MHz processor
[    0.300000] TSC synchronization [CPU#0 -> CPU#1]:
[    0.300001] Measured 1300 cycles TSC warp between CPUs, turning off TSC clock.
[    0.300002] tsc: Marking TSC unstable due to check_tsc_sync_source failed
";
    has(
        &finding_text(&server(log), None, RULE),
        &["TSC warp: 1 300 cycles at 2 600 000 000 Hz from the kernel log are 500 ns"],
    );
}
