//! TSCs of doubtful rate.

use facts::Fact;
use facts::Facts;
use facts::cpu::HypervisorKind;
use facts::hardware::PvclockPage;
use facts::kernel::LogEvent;
use instruments::measurements::Skew;

use crate::case::trust::page_hz;
use crate::testing::{
    could_not, finding_text, fine, healthy_bare_metal, healthy_kvm_guest, log, measured,
    measured_tsc, set_source, unreadable, use_kvm_clock,
};

fn with_flags(mut facts: Facts, constant: bool, nonstop: bool) -> Facts {
    if let Fact::Known(flags) = &mut facts.cpu.flags {
        flags.constant_tsc = constant;
        flags.nonstop_tsc = nonstop;
    }
    facts
}

#[test]
fn tsc_in_use_that_the_cpu_does_not_guarantee() {
    let server = with_flags(healthy_bare_metal(), true, false);
    insta::assert_snapshot!("server", finding_text(&server, None, "tsc-not-constant"));
    let guest = with_flags(healthy_kvm_guest(), false, false);
    insta::assert_snapshot!("guest", finding_text(&guest, None, "tsc-not-constant"));
}

/// QEMU refuses +invtsc under TCG, and -cpu host needs KVM: only KVM helps.
#[test]
fn an_emulated_machine_is_not_told_to_advertise_what_emulation_lacks() {
    let mut guest = with_flags(healthy_kvm_guest(), false, false);
    if let Fact::Known(hypervisor) = &mut guest.cpu.hypervisor {
        hypervisor.signature = "TCGTCGTCGTCG".into();
        hypervisor.kind = HypervisorKind::Tcg;
    }
    set_source(&mut guest, "tsc", "tsc hpet acpi_pm");
    let text = finding_text(&guest, None, "tsc-not-constant");
    let advice = "> Start QEMU with -accel kvm -cpu host,+invtsc: emulation (TCG) has no \
                  invariant TSC.";
    assert!(text.contains(advice), "{text}");
    assert_eq!(text.matches("invtsc").count(), 1, "{text}");
    assert_eq!(text.matches("\n  > ").count(), 1, "no other remedy: {text}");
}

#[test]
fn a_kvm_host_without_constant_tsc() {
    let mut host = with_flags(healthy_bare_metal(), false, false);
    set_source(&mut host, "hpet", "hpet acpi_pm");
    insta::assert_snapshot!(finding_text(&host, None, "tsc-not-constant"));
    let mut guest = with_flags(healthy_kvm_guest(), false, false);
    use_kvm_clock(&mut guest, 1);
    fine(&guest, None, "tsc-not-constant");
}

/// A VirtualBox that advertises 3 478 274 491 Hz and runs at 3 400 109 000.
#[test]
fn virtualboxs_two_percent() {
    let mut facts = healthy_kvm_guest();
    facts.system.product = Fact::Known("VirtualBox".into());
    set_source(&mut facts, "acpi_pm", "kvm-clock tsc acpi_pm");
    facts.kernel.log = Fact::Known(Vec::new());
    let event = LogEvent::TscFrequency { hz: 3_478_274_491, refined: false };
    log(&mut facts, 0.0, "tsc: Detected 3478.274 MHz processor", event);
    let mut measured = measured("acpi_pm", 1_645.0, 1000);
    measured.tsc_rate.as_mut().unwrap().hz = 3_400_109_000.0;
    let text = finding_text(&facts, Some(&measured), "tsc-frequency");
    assert!(text.contains("tsc counts 293.26 s in 300 s"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn virtualboxs_two_percent_show_in_the_cpus_name() {
    let mut facts = healthy_kvm_guest();
    facts.cpu.model = Fact::Known("Intel(R) Core(TM) i7-6700 CPU @ 2.54GHz".into());
    // Elsewhere the name proves nothing: some laptops carry another frequency.
    fine(&facts, None, "tsc-frequency");
    facts.system.product = Fact::Known("VirtualBox".into());
    insta::assert_snapshot!(finding_text(&facts, None, "tsc-frequency"));
    facts.cpu.model = Fact::Known("Intel(R) Core(TM) i7-6700 CPU @ 2.60GHz".into());
    fine(&facts, None, "tsc-frequency");
}

#[test]
fn a_guest_moved_to_a_host_of_another_frequency() {
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 1);
    if let Fact::Known(page) = &mut facts.pvclock_page {
        page.tsc_to_system_mul = 0xc000_0000;
    }
    facts.clocksources.current = Fact::Known("tsc".into());
    insta::assert_snapshot!(finding_text(&facts, None, "tsc-frequency"));
}

#[test]
fn cpuid_and_the_kernel_disagree() {
    let mut facts = healthy_bare_metal();
    facts.cpu.cpuid_tsc_hz = Fact::Known(2_500_000_000);
    insta::assert_snapshot!(finding_text(&facts, None, "tsc-frequency"));
}

#[test]
fn a_measurement_by_the_tsc_itself_proves_nothing() {
    let mut measured = measured_tsc();
    measured.tsc_rate.as_mut().unwrap().hz *= 1.02;
    fine(&healthy_kvm_guest(), Some(&measured), "tsc-frequency");
}

#[test]
fn a_pages_scale_gives_its_frequency_back() {
    let page = |mul, shift| PvclockPage {
        version: 2,
        tsc_timestamp: 0,
        system_time_ns: 0,
        tsc_to_system_mul: mul,
        tsc_shift: shift,
        flags: 1,
    };
    let hz = page_hz(&page(0xc4ec_4ec4, -1)).unwrap();
    assert!((hz / 2.6e9 - 1.0).abs() < 1e-9, "{hz}");
    assert_eq!(page_hz(&page(0, -1)), None);
    assert_eq!(page_hz(&page(1, i8::MIN)), None);
}

#[test]
fn cpus_that_disagree() {
    let mut measured = measured_tsc();
    measured.skews.push(Skew {
        cpu_a: 0,
        cpu_b: 2,
        offset_ns: -4_200.0,
        bound_ns: 60.0,
        round_trips: 1_500,
    });
    insta::assert_snapshot!(finding_text(&healthy_kvm_guest(), Some(&measured), "tsc-across-cpus"));
    // An estimate within its own bound is no difference.
    let mut vague = measured_tsc();
    vague.skews[0].offset_ns = 900.0;
    vague.skews[0].bound_ns = 1_000.0;
    fine(&healthy_kvm_guest(), Some(&vague), "tsc-across-cpus");
}

#[test]
fn firmware_complaints_concern_only_real_machines() {
    let text = "[Firmware Bug]: TSC doesn't count with P0 frequency!";
    let mut server = healthy_bare_metal();
    log(&mut server, 0.0, text, LogEvent::TscFault);
    insta::assert_snapshot!(finding_text(&server, None, "tsc-firmware"));
    let mut guest = healthy_kvm_guest();
    log(&mut guest, 0.0, text, LogEvent::TscFault);
    fine(&guest, None, "tsc-firmware");
    let mut slow_start = healthy_bare_metal();
    log(&mut slow_start, 0.0, "tsc: Fast TSC calibration failed", LogEvent::TscFault);
    fine(&slow_start, None, "tsc-firmware");
}

#[test]
fn unknown_facts_are_no_finding() {
    for rule in ["tsc-not-constant", "tsc-frequency", "tsc-across-cpus", "tsc-firmware"] {
        could_not(&unreadable(), None, rule);
    }
}

#[test]
fn offsets_that_kvm_clock_allows_for_are_a_note() {
    let mut measured = measured("kvm-clock", 805.0, 1000);
    measured.skews[0] = Skew { offset_ns: 2200.0, bound_ns: 300.0, ..measured.skews[0].clone() };
    measured.order[0].clock = "TSC across CPUs".into();
    measured.order[0].backward = 7;
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 0);
    let text = finding_text(&facts, Some(&measured), "tsc-across-cpus");
    assert!(text.starts_with("Note: ") && text.contains("its own page"), "{text}");
    fine(&facts, Some(&measured), "clock-order");
}

/// Linux 6.1's KVM on hpet sets a vCPU's TSC each time that it runs: no offset lasts,
/// and a witness saw readings 9 to 85 µs below earlier ones.
#[test]
fn a_tsc_that_goes_backward_is_told_where_no_offset_is_known() {
    let mut measured = measured("kvm-clock", 805.0, 1000);
    measured.skews[0].bound_ns = 1.67e6;
    measured.order[0].clock = "TSC across CPUs".into();
    (measured.order[0].backward, measured.order[0].largest_backward_ns) = (7, 9_300.0);
    let mut facts = healthy_kvm_guest();
    use_kvm_clock(&mut facts, 0);
    let text = finding_text(&facts, Some(&measured), "tsc-across-cpus");
    assert!(text.starts_with("Note: The CPUs' TSCs disagree by up to 9.30 µs"), "{text}");
    assert!(text.contains("7 of"), "{text}");
    // Under tsc the rule clock-order says so.
    could_not(&healthy_kvm_guest(), Some(&measured), "tsc-across-cpus");
}

#[test]
fn a_bound_that_shows_nothing_is_not_in_order() {
    let mut measured = measured_tsc();
    measured.skews[0].bound_ns = 4.91e6;
    let why = could_not(&healthy_kvm_guest(), Some(&measured), "tsc-across-cpus");
    assert!(why.contains("known only to ±4.91 ms"), "{why}");
}
