//! What runs in the first guest: a line here, and its check in `checks.rs`.
//! Of a command named `lab-…`, every check of the lab's own must pass.

/// One command line, run by the guest's shell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// Its name in records, checks and the report; no spaces.
    pub(crate) name: &'static str,
    /// Its time limit, s of the guest's time.
    pub(crate) limit_s: u32,
    /// The line for the shell.
    pub(crate) line: &'static str,
}

/// All, in order. The clock source may be switched: the guest is deleted.
pub(crate) const COMMANDS: &[Command] = &[
    run("kernel", 10, "uname -rv"),
    run("kvm", 10, "ls /dev/kvm && cut -d ' ' -f 1 /proc/modules"),
    run("rtc", 10, "cat /sys/class/rtc/rtc0/name"),
    run("clocks", 60, "parachron clocks --format json"),
    run("doctor", 60, "parachron doctor --format json"),
    run("doctor-hpet", 60, "echo hpet >$CLOCKSOURCE && parachron doctor --format json"),
    run("doctor-acpi_pm", 60, "echo acpi_pm >$CLOCKSOURCE && parachron doctor --format json"),
    run(
        "bench",
        90,
        "echo tsc >$CLOCKSOURCE && parachron bench --each-source --duration 1s --format json",
    ),
    run("source-after", 10, "cat $CLOCKSOURCE"),
    run("lab-agreement", 120, "parachron lab --only agreement --format json"),
];

const fn run(name: &'static str, limit_s: u32, line: &'static str) -> Command {
    Command { name, limit_s, line }
}
