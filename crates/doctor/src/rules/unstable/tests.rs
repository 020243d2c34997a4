//! Each cause of an unstable TSC, from log lines as kernels print them.

mod guests;
mod hpet;
mod real_logs;
mod suppressed;

use facts::Fact;
use facts::Facts;
use facts::kernel::LogEvent;

use crate::finding::Severity;
use crate::testing::{
    boot_with, could_not, finding_text, findings_of_rule, fine, healthy_bare_metal,
    healthy_kvm_guest, log, set_source, unreadable, use_kvm_clock,
};

const RULE: &str = "tsc-marked-unstable";

/// A server that has fallen back to hpet.
fn fallen_back() -> Facts {
    let mut facts = healthy_bare_metal();
    set_source(&mut facts, "hpet", "hpet acpi_pm");
    facts
}

fn marked(facts: &mut Facts, because: &str) {
    let event = LogEvent::MarkedUnstable { clocksource: "tsc".into(), because: because.into() };
    log(facts, 1000.0, &format!("tsc: Marking TSC unstable due to {because}"), event);
}

/// The four lines of kernels from 5.13 or so on.
fn watchdog(facts: &mut Facts, by: &str, wd_ns: u64, wd: [u64; 3], cs_ns: u64, cs: [u64; 2]) {
    watchdog_at(1000.0, facts, (by, wd_ns, wd), (cs_ns, cs));
}

fn watchdog_at(
    at_s: f64,
    facts: &mut Facts,
    (by, wd_ns, wd): (&str, u64, [u64; 3]),
    (cs_ns, cs): (u64, [u64; 2]),
) {
    let because = "the skew is too large:";
    log(
        facts,
        at_s,
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because \
         the skew is too large:",
        LogEvent::MarkedUnstable { clocksource: "tsc".into(), because: because.into() },
    );
    let [now, last, mask] = wd;
    log(
        facts,
        at_s,
        &format!(
            "clocksource:                       '{by}' wd_nsec: {wd_ns} wd_now: {now:x} wd_last: \
             {last:x} mask: {mask:x}"
        ),
        LogEvent::WatchdogInterval {
            watchdog: true,
            clocksource: by.into(),
            interval_ns: Some(wd_ns),
        },
    );
    // As many ticks as the source has in so many ns.
    let [now, last] = match (cs, facts.kernel.tsc_hz()) {
        (TSC, Some((hz, _))) => [TSC[1] + (cs_ns as f64 * hz as f64 / 1e9) as u64, TSC[1]],
        _ => cs,
    };
    log(
        facts,
        at_s,
        &format!(
            "clocksource:                       'tsc' cs_nsec: {cs_ns} cs_now: {now:x} cs_last: \
             {last:x} mask: ffffffffffffffff"
        ),
        LogEvent::WatchdogInterval {
            watchdog: false,
            clocksource: "tsc".into(),
            interval_ns: Some(cs_ns),
        },
    );
}

const HPET: [u64; 3] = [0x8f3d_3b20, 0x8ed0_ca02, 0xffff_ffff];
const TSC: [u64; 2] = [0x5_0000_0000, 0x4_b000_0000];

#[test]
fn a_wrong_rate() {
    let (hpet, tsc) = (("hpet", 496_073_521, HPET), (507_223_190, TSC));
    let mut facts = fallen_back();
    watchdog_at(3.5, &mut facts, hpet, tsc);
    insta::assert_snapshot!("server", finding_text(&facts, None, RULE));
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "acpi_pm", "kvm-clock acpi_pm");
    watchdog_at(3.5, &mut facts, hpet, tsc);
    insta::assert_snapshot!("guest", finding_text(&facts, None, RULE));
}

#[test]
fn the_same_figures_after_days_of_good_service() {
    let (hpet, tsc) = (("hpet", 496_073_521, HPET), (507_223_190, TSC));
    let mut facts = fallen_back();
    watchdog_at(260_000.0, &mut facts, hpet, tsc);
    insta::assert_snapshot!("server_late", finding_text(&facts, None, RULE));
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "acpi_pm", "kvm-clock acpi_pm");
    watchdog_at(260_000.0, &mut facts, hpet, tsc);
    insta::assert_snapshot!("guest_late", finding_text(&facts, None, RULE));
}

#[test]
fn a_counter_set_back_by_a_suspend() {
    let mut facts = fallen_back();
    log(&mut facts, 998.7, "PM: suspend exit", LogEvent::Resumed);
    watchdog(&mut facts, "hpet", 503_000_000, HPET, 0, [0x1000, 0x5_0000_0000]);
    insta::assert_snapshot!(finding_text(&facts, None, RULE));
}

#[test]
fn a_counter_that_stood_still_over_a_restore() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "acpi_pm", "acpi_pm");
    let text = "random: crng reseeded due to virtual machine fork";
    log(&mut facts, 999.9, text, LogEvent::Restored);
    watchdog(&mut facts, "hpet", 61_500_000_000, HPET, 500_100_000, TSC);
    insta::assert_snapshot!(finding_text(&facts, None, RULE));
}

#[test]
fn the_watchdogs_own_counter_wrapped() {
    let mut facts = fallen_back();
    // acpi_pm counted 0.5 s where 5.187 s had passed: one wrap of 4.687 s.
    let acpi_pm = [0x10_e1d1, 0xf5_922c, 0xff_ffff];
    watchdog(&mut facts, "acpi_pm", 500_024_724, acpi_pm, 5_187_012_345, TSC);
    insta::assert_snapshot!(finding_text(&facts, None, RULE));
}

#[test]
fn a_late_read_under_load() {
    let mut facts = fallen_back();
    log(
        &mut facts,
        900.0,
        "clocksource: timekeeping watchdog on CPU1: hpet wd-wd read-back delay of 215423ns",
        LogEvent::WatchdogDelayed { delay_ns: Some(215_423) },
    );
    watchdog(&mut facts, "hpet", 503_000_000, HPET, 503_900_000, TSC);
    insta::assert_snapshot!(finding_text(&facts, None, RULE));
}

#[test]
fn ticks_as_yardstick() {
    let mut facts = fallen_back();
    let jiffies = [0xfffb_7018, 0xfffb_6e9d, 0xffff_ffff];
    watchdog(&mut facts, "refined-jiffies", 378_942_392, jiffies, 1_224_152_026, TSC);
    insta::assert_snapshot!(finding_text(&facts, None, RULE));
}

#[test]
fn the_skew_line_of_newer_kernels_is_enough() {
    let mut facts = fallen_back();
    log(
        &mut facts,
        1000.0,
        "clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because \
         the skew is too large:",
        LogEvent::MarkedUnstable { clocksource: "tsc".into(), because: "the skew".into() },
    );
    log(
        &mut facts,
        1000.0,
        "clocksource:                       Clocksource 'tsc' skewed -2100000 ns (-2 ms) over \
         watchdog 'hpet' interval of 512000000 ns (512 ms)",
        LogEvent::Skew { clocksource: "tsc".into(), skew_ns: -2_100_000, interval_ns: 512_000_000 },
    );
    let text = finding_text(&facts, None, RULE);
    assert!(text.contains("after 16.7 min it jumped by -2.10 ms in one check"), "{text}");
}

#[test]
fn kernels_that_give_counters_only_are_understood_by_their_frequencies() {
    let mut facts = fallen_back();
    let hpet = "hpet0: 3 comparators, 64-bit 14.318180 MHz counter";
    log(&mut facts, 0.5, hpet, LogEvent::Other);
    log(
        &mut facts,
        2.5,
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because \
         the skew is too large:",
        LogEvent::MarkedUnstable { clocksource: "tsc".into(), because: "the skew".into() },
    );
    // 7 159 090 ticks are 0.5 s; 1 326 000 000 cycles of 2.6 GHz are 0.51 s.
    for (watchdog, clocksource, text) in [
        (true, "hpet", format!("'hpet' wd_now: {:x} wd_last: 0 mask: ffffffff", 7_159_090)),
        (
            false,
            "tsc",
            format!("'tsc' cs_now: {:x} cs_last: 0 mask: ffffffffffffffff", 1_326_000_000),
        ),
    ] {
        let event = LogEvent::WatchdogInterval {
            watchdog,
            clocksource: clocksource.into(),
            interval_ns: None,
        };
        log(&mut facts, 2.5, &text, event);
    }
    let text = finding_text(&facts, None, RULE);
    assert!(text.contains("its rate is +20\u{202f}000 ppm off"), "{text}");
    assert!(text.contains("TSC minus hpet: +10.0 ms in an interval of 500 ms"), "{text}");
}

#[test]
fn a_read_too_late_to_judge_is_reported_as_late() {
    let mut facts = fallen_back();
    log(
        &mut facts,
        900.0,
        "clocksource: timekeeping watchdog on CPU2: hpet read-back delay of 216533ns, attempt 4, \
         marking unstable",
        LogEvent::WatchdogDelayed { delay_ns: Some(216_533) },
    );
    marked(&mut facts, "clocksource watchdog");
    assert!(finding_text(&facts, None, RULE).contains("a read was late, under load"));
}

#[test]
fn the_delta_of_old_kernels() {
    let cases = [
        ("-17179860571", "the comparison overflowed"),
        ("-95170507948", "95.2 s behind its reference, and the log does not show why"),
        ("6824818792", "6.82 s ahead of its reference, and the log does not show why"),
        ("-102057770", "102 ms behind its reference, and the log does not show why"),
    ];
    for (delta, short) in cases {
        let mut facts = fallen_back();
        let text = format!("Clocksource tsc unstable (delta = {delta} ns)");
        let event = LogEvent::MarkedUnstable {
            clocksource: "tsc".into(),
            because: format!("delta = {delta} ns"),
        };
        log(&mut facts, 1000.0, &text, event);
        let found = finding_text(&facts, None, RULE);
        assert!(found.contains(short), "{delta}: {found}");
    }
}

#[test]
fn the_kernels_messages() {
    let mut all = String::new();
    for because in [
        "TSCs unsynchronized",
        "check_tsc_sync_source failed",
        "inter CPU skew",
        "TSC halts in idle",
        "cpufreq changes",
        "could not calculate TSC khz",
        "KVM discovered backwards TSC",
        "clocksource watchdog",
    ] {
        let mut facts = fallen_back();
        marked(&mut facts, because);
        all += &format!("--- {because}\n{}\n", finding_text(&facts, None, RULE));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_line_with_the_cause_is_preferred() {
    let mut facts = fallen_back();
    marked(&mut facts, "clocksource watchdog");
    watchdog(&mut facts, "hpet", 496_073_521, HPET, 507_223_190, TSC);
    assert!(finding_text(&facts, None, RULE).contains("it jumped by +11.1 ms in one check"));
}

#[test]
fn under_hyperv_it_is_normal_and_under_kvm_clock_a_note() {
    let mut facts = fallen_back();
    marked(&mut facts, "running on Hyper-V");
    fine(&facts, None, RULE);
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 1);
    marked(&mut facts, "check_tsc_sync_source failed");
    let findings = findings_of_rule(&crate::diagnose(&facts, None), RULE);
    assert_eq!(findings[0].severity, Severity::Note);
}

#[test]
fn a_parameter_that_requests_it_is_another_rules_finding() {
    for (because, parameter) in
        [("boot parameter", "tsc=unstable"), ("boot parameter notsc", "notsc")]
    {
        let mut facts = fallen_back();
        boot_with(&mut facts, parameter);
        marked(&mut facts, because);
        fine(&facts, None, RULE);
        let text = finding_text(&facts, None, "harmful-parameters");
        assert!(text.contains(parameter), "{text}");
        let slow = finding_text(&facts, None, "slow-clocksource");
        assert!(slow.contains("> Boot without "), "{slow}");
    }
}

#[test]
fn another_source_marked_unstable_is_named_and_not_the_tsc() {
    let mut facts = healthy_bare_metal();
    let event = LogEvent::MarkedUnstable { clocksource: "hpet".into(), because: "skew".into() };
    log(&mut facts, 5.0, "Marking clocksource 'hpet' as unstable", event);
    let text = finding_text(&facts, None, RULE);
    assert!(
        text.contains("marked clock source hpet unstable: the log does not show why"),
        "{text}"
    );
    assert!(!text.contains("The TSC") && !text.contains("the TSC"), "{text}");
}

#[test]
fn extreme_figures_do_no_harm() {
    for (wd_ns, cs_ns) in [(0, 0), (0, u64::MAX), (u64::MAX, 0), (1, u64::MAX)] {
        let mut facts = fallen_back();
        watchdog(&mut facts, "hpet", wd_ns, [0, 0, 0], cs_ns, [u64::MAX, 0]);
        finding_text(&facts, None, RULE);
    }
}

#[test]
fn without_a_log_it_cannot_be_checked() {
    could_not(&unreadable(), None, RULE);
    let mut facts = healthy_bare_metal();
    facts.kernel.log = Fact::Known(Vec::new());
    fine(&facts, None, RULE);
}

/// The kernel's test marks its own clock source, and a verdict on the TSC minutes later is none
/// of its doing.
#[test]
fn a_test_of_the_watchdog_acquits_only_what_it_provoked() {
    let mut facts = fallen_back();
    let because = "the skew is too large:";
    let own =
        LogEvent::MarkedUnstable { clocksource: "wdtest-ktime".into(), because: because.into() };
    log(&mut facts, 38.0, "clocksource_wdtest: --- Watchdog", LogEvent::WatchdogTest);
    log(&mut facts, 38.5, "clocksource: Marking clocksource 'wdtest-ktime' as unstable", own);
    let text = finding_text(&facts, None, RULE);
    assert!(text.contains("marked its test clock source unstable: a test"), "{text}");
    assert!(text.contains("The TSC is not affected."), "{text}");
    marked(&mut facts, "check_tsc_sync_source failed");
    let text = finding_text(&facts, None, RULE);
    assert!(text.contains("marked the TSC unstable: its CPUs' counters disagree"), "{text}");
}
