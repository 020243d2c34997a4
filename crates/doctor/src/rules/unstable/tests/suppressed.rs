//! Messages that the kernel left out.

use facts::kernel;

use crate::testing::{finding_text, healthy_bare_metal};

#[test]
fn messages_that_the_kernel_left_out_are_counted() {
    let mut facts = healthy_bare_metal();
    facts.kernel.log = kernel::parse_log(
        "\
[14669.048261] clocksource: timekeeping watchdog on CPU1: acpi_pm wd-wd read-back delay of 144431ns
[14669.148261] cs_watchdog_read: 7 callbacks suppressed
",
    );
    let text = finding_text(&facts, None, "watchdog-late");
    assert!(text.contains("1 time") && text.contains("7 more messages"), "{text}");
}
