//! Sick machines for the rules about the clock source.

use facts::Fact;
use facts::Facts;
use facts::cpu::HypervisorKind;
use facts::kernel::LogEvent;
use instruments::measurements::{Granularity, Measurements};

use crate::testing::{
    boot_with, could_not, finding_text, fine, healthy_bare_metal, healthy_firecracker,
    healthy_kvm_guest, log, measured, missing, set_source, unreadable,
};

fn slow(facts: &Facts, measured: Option<&Measurements>) -> String {
    finding_text(facts, measured, "slow-clocksource")
}

#[test]
fn without_sys_there_is_one_warning() {
    insta::assert_snapshot!(finding_text(&unreadable(), None, "clock-sources-readable"));
    let mut facts = healthy_kvm_guest();
    facts.clocksources.available = missing("available_clocksource");
    could_not(&facts, None, "clock-sources-readable");
}

#[test]
fn acpi_pm_in_a_guest_with_a_good_tsc() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "acpi_pm", "tsc kvm-clock hpet acpi_pm");
    boot_with(&mut facts, "clocksource=acpi_pm");
    insta::assert_snapshot!(slow(&facts, Some(&measured("acpi_pm", 1645.0, 1000))));
}

#[test]
fn hpet_on_a_server_whose_tsc_was_marked_unstable_is_not_to_be_switched() {
    let mut facts = healthy_bare_metal();
    set_source(&mut facts, "hpet", "hpet acpi_pm");
    log(
        &mut facts,
        3.2,
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable \
         because the skew is too large:",
        LogEvent::MarkedUnstable {
            clocksource: "tsc".into(),
            because: "the skew is too large:".into(),
        },
    );
    log(
        &mut facts,
        3.3,
        "clocksource: Switched to clocksource hpet",
        LogEvent::Switched { to: "hpet".into() },
    );
    let text = slow(&facts, Some(&measured("hpet", 1100.0, 1000)));
    assert!(!text.contains("echo tsc"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_guest_without_constant_tsc_is_sent_to_kvm_clock() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "hpet", "kvm-clock tsc hpet acpi_pm");
    if let Fact::Known(flags) = &mut facts.cpu.flags {
        flags.constant_tsc = false;
        flags.nonstop_tsc = false;
    }
    let text = slow(&facts, None);
    assert!(text.contains("echo kvm-clock"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn on_a_platform_that_restores_snapshots_kvm_clock_is_preferred_to_tsc() {
    let mut facts = healthy_firecracker();
    set_source(&mut facts, "refined-jiffies", "tsc kvm-clock");
    let text = slow(&facts, None);
    assert!(text.contains("echo kvm-clock") && !text.contains("echo tsc"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn xen_by_system_calls_is_slow_and_xen_in_the_program_is_not() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "xen", "xen tsc hpet acpi_pm");
    if let Fact::Known(hypervisor) = &mut facts.cpu.hypervisor {
        hypervisor.kind = HypervisorKind::Xen;
        hypervisor.signature = "XenVMMXenVMM".into();
        hypervisor.kvm_features = None;
    }
    facts.system.product = Fact::Known("HVM domU".into());
    facts.system.distribution = Fact::Known("Amazon Linux 2".into());
    insta::assert_snapshot!(slow(&facts, Some(&measured("xen", 596.0, 1000))));
    fine(&facts, Some(&measured("xen", 45.0, 0)), "slow-clocksource");
    insta::assert_snapshot!("xen_not_measured", slow(&facts, None));
    set_source(&mut facts, "xen", "xen");
    fine(&facts, None, "slow-clocksource");
}

#[test]
fn virtualboxs_wrong_rate_speaks_against_kvm_clock_too() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "acpi_pm", "kvm-clock tsc acpi_pm");
    facts.system.product = Fact::Known("VirtualBox".into());
    facts.cpu.model = Fact::Known("Intel(R) Core(TM) i7-6700 CPU @ 2.50GHz".into());
    insta::assert_snapshot!("virtualbox", slow(&facts, None));
}

#[test]
fn hyperv_by_msr_is_slow() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "hyperv_clocksource_msr", "hyperv_clocksource_msr acpi_pm");
    insta::assert_snapshot!(slow(&facts, None));
}

#[test]
fn a_tsc_that_measures_two_percent_off_is_not_recommended() {
    let mut facts = healthy_bare_metal();
    set_source(&mut facts, "acpi_pm", "tsc acpi_pm");
    let mut measured = measured("acpi_pm", 1645.0, 1000);
    measured.tsc_rate.as_mut().unwrap().hz = crate::testing::TSC_HZ as f64 * 0.9775;
    let text = slow(&facts, Some(&measured));
    assert!(!text.contains("echo tsc"), "{text}");
    assert!(text.contains("tsc would be faster but unsafe here (its rate is -22\u{202f}500 ppm off the rate that the kernel assumes)"), "{text}");
}

#[test]
fn unknown_sources_are_not_judged() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "quantum_clock", "quantum_clock");
    could_not(&facts, None, "slow-clocksource");
    could_not(&unreadable(), None, "clocksource-not-used");
}

#[test]
fn a_requested_source_that_is_not_used() {
    let mut facts = healthy_kvm_guest();
    boot_with(&mut facts, "clocksource=kvm-clock");
    insta::assert_snapshot!(
        "changed_since_boot",
        finding_text(&facts, None, "clocksource-not-used")
    );
    let mut facts = healthy_bare_metal();
    boot_with(&mut facts, "clocksource=kvm-clock clocksource=tcs");
    insta::assert_snapshot!("not_offered", finding_text(&facts, None, "clocksource-not-used"));
    let mut facts = healthy_bare_metal();
    boot_with(&mut facts, "clocksource=tsc");
    set_source(&mut facts, "hpet", "hpet acpi_pm");
    let event = LogEvent::MarkedUnstable { clocksource: "tsc".into(), because: "skew".into() };
    log(&mut facts, 3.0, "Marking clocksource 'tsc' as unstable", event);
    insta::assert_snapshot!("found_unstable", finding_text(&facts, None, "clocksource-not-used"));
    let mut facts = healthy_kvm_guest();
    boot_with(&mut facts, "clocksource=tsc -- clocksource=hpet");
    assert_eq!(
        fine(&facts, None, "clocksource-not-used"),
        "tsc, as the kernel command line requests"
    );
}

#[test]
fn an_unreadable_machine_cannot_be_checked() {
    could_not(&unreadable(), None, "slow-clocksource");
}

#[test]
fn a_clock_of_timer_ticks_says_its_step() {
    let mut facts = healthy_kvm_guest();
    set_source(&mut facts, "refined-jiffies", "refined-jiffies jiffies");
    let step = |facts: &Facts, measured| {
        let text = slow(facts, measured);
        let (_, rest) = text.split_once("The clock advances only every ").expect("a step");
        rest.split_once(": refined-jiffies").expect("the source").0.to_owned()
    };
    assert_eq!(step(&facts, None), "1 to 10 ms");
    // As Linux 5.10 logs it on a microvm of QEMU, HZ=250.
    let line = "clocksource: refined-jiffies: mask: 0xffffffff max_cycles: 0xffffffff, \
                max_idle_ns: 7645519600211568 ns";
    log(&mut facts, 0.034, line, LogEvent::Other);
    assert_eq!(step(&facts, None), "4.00 ms");
    if let Fact::Known(options) = &mut facts.kernel.configuration {
        options.insert("HZ".into(), "1000".into());
    }
    assert_eq!(step(&facts, None), "1.00 ms");
    let mut measured = measured("refined-jiffies", 878.0, 1000);
    measured.granularity.push(Granularity {
        clock: "CLOCK_MONOTONIC".into(),
        smallest_step_ns: Some(10_000_000),
        claimed_ns: Some(1),
    });
    assert_eq!(step(&facts, Some(&measured)), "10.0 ms");
}
