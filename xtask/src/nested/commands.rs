//! What runs in the guest: a line here, and its check in `checks.rs`. Of a
//! command named `lab-…` every check that the lab itself makes must hold.

/// One command line, run by the guest's shell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// Its name in records, checks and the report; no spaces.
    pub(crate) name: &'static str,
    /// When it is ended for good, s of the guest's time.
    pub(crate) limit_s: u32,
    /// What the shell gets.
    pub(crate) line: &'static str,
}

/// All, in order. The clock source may be switched: the guest is thrown away.
pub(crate) const COMMANDS: &[Command] = &[
    Command { name: "kernel", limit_s: 10, line: "uname -rv" },
    Command { name: "kvm", limit_s: 10, line: "ls /dev/kvm && cut -d ' ' -f 1 /proc/modules" },
    Command { name: "rtc", limit_s: 10, line: "cat /sys/class/rtc/rtc0/name" },
    Command { name: "clocks", limit_s: 60, line: "parachron clocks --format json" },
    Command { name: "doctor", limit_s: 60, line: "parachron doctor --format json" },
    Command {
        name: "doctor-hpet",
        limit_s: 60,
        line: "echo hpet >$CLOCKSOURCE && parachron doctor --format json",
    },
    Command {
        name: "doctor-acpi_pm",
        limit_s: 60,
        line: "echo acpi_pm >$CLOCKSOURCE && parachron doctor --format json",
    },
    Command {
        name: "bench",
        limit_s: 90,
        line: "echo tsc >$CLOCKSOURCE && \
               parachron bench --each-source --duration 1s --format json",
    },
    Command { name: "source-after", limit_s: 10, line: "cat $CLOCKSOURCE" },
    Command {
        name: "lab-agreement",
        limit_s: 120,
        line: "parachron lab --only agreement --format json",
    },
];
