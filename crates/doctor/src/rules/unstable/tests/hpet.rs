//! An HPET as the reference: its counter has 32 bits, at 14.318 MHz on most boards
//! and at 100 MHz in QEMU, so it wraps every 300 s or every 43 s.

use facts::Facts;
use facts::kernel;

use super::RULE;
use crate::testing::{finding_text, healthy_bare_metal, set_source};

/// What says an HPET's rate: its driver (drivers/char/hpet.c), and its clock source
/// where the kernel lacks that driver.
const QEMUS_DRIVER: &str = "[    2.945263] hpet0: 3 comparators, 64-bit 100.000000 MHz counter\n";
const QEMUS_SOURCE: &str = "[    0.807278] clocksource: hpet: mask: 0xffffffff max_cycles: \
    0xffffffff, max_idle_ns: 19112604467 ns\n";

/// The watchdog's lines: what it took the reference's interval for, the reference's
/// ticks, and the TSC's time.
fn verdict(wd_ns: u64, ticks: u64, cs_ns: u64) -> String {
    // From where the counter wraps within any of these.
    let last = 0xfff0_0000_u64;
    let now = (last + ticks) & 0xffff_ffff;
    // 2.6 GHz.
    let cycles = cs_ns / 10 * 26;
    format!(
        "[  100.000001] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as \
         unstable because the skew is too large:\n\
         [  100.000002] clocksource:                       'hpet' wd_nsec: {wd_ns} wd_now: {now:x} \
         wd_last: {last:x} mask: ffffffff\n\
         [  100.000003] clocksource:                       'tsc' cs_nsec: {cs_ns} cs_now: {:x} \
         cs_last: 0 mask: ffffffffffffffff\n",
        cycles
    )
}

fn said(log_text: &str) -> String {
    let mut facts: Facts = healthy_bare_metal();
    set_source(&mut facts, "hpet", "hpet acpi_pm");
    facts.kernel.log = kernel::parse_log(log_text);
    finding_text(&facts, None, RULE).replace('\u{202f}', " ")
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn an_hpet_that_wrapped_acquits_the_tsc() {
    // 2^32 / 14.318180 MHz = 299.966 s late: on time by the HPET, 0.5 s.
    let once = said(&verdict(500_000_000, 7_159_090, 300_466_007_970));
    has(&once, &["its reference wrapped", "is 1 wrap of the reference's counter"]);
    has(&once, &["wraps every 300 s", "The TSC is most likely not at fault"]);
    // 2 · 2^32 / 100 MHz = 85.899 s late.
    let twice = said(&verdict(500_000_000, 50_000_000, 86_399_345_920));
    has(&twice, &["its reference wrapped", "is 2 wraps of the reference's counter"]);
    has(&twice, &["wraps every 42.9 s"]);
    // Half a wrap is none.
    let jump = said(&verdict(500_000_000, 50_000_000, 21_974_836_480));
    assert!(!jump.contains("wrap"), "{jump}");
}

/// 25 s of QEMU's HPET are over half of its 43 s: the kernel counts nothing.
#[test]
fn over_half_of_an_hpets_range_with_and_without_a_wrap() {
    for rate in [QEMUS_DRIVER, QEMUS_SOURCE] {
        let late = |cs_ns| said(&format!("{rate}{}", verdict(0, 2_500_000_000, cs_ns)));
        let once = late(25_000_000_000);
        has(&once, &["the check came seconds late", "over half of its range of 42.9 s"]);
        has(&once, &["With that count the two agree", "hpet: 100 000 000 Hz from the kernel"]);
        let wrapped = late(67_949_672_960);
        has(&wrapped, &["With that count and 1 wrap the two agree"]);
    }
}

/// A ring buffer keeps neither line for days. Taken for the usual 14.318 MHz, QEMU's
/// HPET counted 175 s where the TSC counted 25 s: no step back.
#[test]
fn an_hpet_of_unknown_rate_is_tried_at_others() {
    let text = said(&verdict(0, 2_500_000_000, 25_000_000_000));
    has(&text, &["The reference counted 25.0 s, over half of its range of 42.9 s"]);
    has(&text, &["With that count the two agree"]);
    has(&text, &["hpet: 100 000 000 Hz assumed, as some have it and it fits"]);
    // At 14.318 MHz 175 s, at 24 MHz 104 s: none fits 33 s, nor was it a step back.
    let text = said(&verdict(0, 2_500_000_000, 33_000_000_000));
    assert!(!text.contains("backward") && !text.contains("agree"), "{text}");
    // 10 ms back, by a check on time.
    let text = said(&verdict(0, 4_294_824_114, 500_000_000));
    has(&text, &["its reference went backward", "10.0 ms behind its last reading"]);
}
