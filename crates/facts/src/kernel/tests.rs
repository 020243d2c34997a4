use super::*;

const STAMPED: &str = "[    0.386268] clocksource: Switched to clocksource kvm-clock";

#[test]
fn every_form_of_a_log_line_gives_the_same_line() {
    for line in [
        STAMPED,
        "<6>[    0.386268] clocksource: Switched to clocksource kvm-clock",
        "[    0.386268][    T1] clocksource: Switched to clocksource kvm-clock",
        "6,339,386268,-;clocksource: Switched to clocksource kvm-clock",
        "Nov 21 04:26:01 secret-host kernel: [    0.386268] clocksource: Switched to clocksource kvm-clock",
        "2026-11-21T04:26:01.123456+00:00 secret-host kernel: [    0.386268] clocksource: Switched to clocksource kvm-clock",
    ] {
        assert_eq!(reduce_log(line), format!("{STAMPED}\n"), "{line}");
    }
    for line in [
        "[Wed May 25 05:27:59 2022] clocksource: Switched to clocksource kvm-clock",
        "Nov 21 04:26:01 secret-host kernel: clocksource: Switched to clocksource kvm-clock",
        "clocksource: Switched to clocksource kvm-clock",
    ] {
        assert_eq!(reduce_log(line), "clocksource: Switched to clocksource kvm-clock\n", "{line}");
    }
}

#[test]
fn only_the_last_boot_and_only_clocks_are_kept() {
    let kept = reduce_log(
        "[    0.1] tsc: Detected 2000.000 MHz processor\n\
         [    0.0] Linux version 6.1.0 (builder@secret-host)\n\
         [    0.2] usb 1-1: SerialNumber: 123\n\
         [    9.9] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [secret:77]\n\
         [   10.0] hrtimer: interrupt took 5 ns\n",
    );
    assert_eq!(
        kept,
        "[    9.900000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [withheld]\n\
         [   10.000000] hrtimer: interrupt took 5 ns\n"
    );
    assert_eq!(reduce_log(&kept), kept);
    let lines = parse_log(&kept).value().unwrap().clone();
    assert_eq!(lines[1].at_s, Some(10.0));
    assert_eq!(lines[1].event, LogEvent::HrtimerLate { took_ns: 5 });
}

#[test]
fn the_command_line_keeps_words_about_time_and_nothing_else() {
    let reduced = reduce_command_line(
        "BOOT_IMAGE=/vmlinuz root=UUID=secret ro quiet tsc=reliable password=x key=y \
         processor.max_cstate=1 \"xen.independent_wallclock=1\" no_kvmclock -- clocksource=init\n",
    );
    assert_eq!(
        reduced,
        "withheld quiet tsc=reliable withheld processor.max_cstate=1 withheld no_kvmclock withheld\n"
            .replacen("withheld no", "\"xen.independent_wallclock=1\" no", 1)
    );
    assert_eq!(reduce_command_line(&reduced), reduced);
    let words = parse_command_line("a \"b c\" d=\"e f\" g\n").value().unwrap().clone();
    assert_eq!(words, ["a", "\"b c\"", "d=\"e f\"", "g"]);
    assert_eq!(parse_command_line("\n"), Fact::Known(vec![]));
}

#[test]
fn the_configuration_keeps_options_about_time_that_are_set() {
    let text = "# a comment\nCONFIG_HZ=250\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_KVM_GUEST=y\n\
                CONFIG_DEFAULT_HOSTNAME=\"secret\"\nCONFIG_PTP_1588_CLOCK_KVM=m\n";
    let reduced = reduce_configuration(text);
    assert_eq!(reduced, "CONFIG_HZ=250\nCONFIG_KVM_GUEST=y\nCONFIG_PTP_1588_CLOCK_KVM=m\n");
    let options = parse_configuration(&reduced).value().unwrap().clone();
    assert_eq!(options["HZ"], "250");
    assert_eq!(options["PTP_1588_CLOCK_KVM"], "m");
    assert!(!options.contains_key("NO_HZ_FULL"));
    assert!(parse_configuration("\u{fffd}").unknown().is_some());
}

/// QEMU's 100 MHz, 24 MHz, and the figures of no HPET.
#[test]
fn an_hpets_period_is_in_the_line_that_registers_it() {
    let ns = |idle_ns: &str| {
        let line = "clocksource: hpet: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns:";
        hpet_period_ns(&format!("{line} {idle_ns} ns"))
    };
    assert!((ns("19112604467").unwrap() - 10.0).abs() < 1e-6);
    assert!((ns("79635851949").unwrap() - 41.667).abs() < 1e-3);
    assert_eq!((ns("5"), ns("x")), (None, None));
    assert_eq!(hpet_period_ns("clocksource: hpet: mask: 0xffffffff"), None);
}
