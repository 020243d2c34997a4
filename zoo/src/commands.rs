//! What runs in the first guest: a line here, and its check in `checks.rs`.
//! Of a command named `lab-…`, every check of the lab's own must pass.

use crate::expected::{bench, clocks, doctor, lab};

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
    Command { name: "kernel", limit_s: 10, line: "uname -rv" },
    Command { name: "kvm", limit_s: 10, line: "ls /dev/kvm && cut -d ' ' -f 1 /proc/modules" },
    Command { name: "rtc", limit_s: 10, line: "cat /sys/class/rtc/rtc0/name" },
    Command { name: "clocks", limit_s: 60, line: clocks::COMMAND },
    Command { name: "doctor", limit_s: 60, line: doctor::COMMAND },
    Command { name: "doctor-hpet", limit_s: 60, line: doctor::ON_HPET },
    Command { name: "doctor-acpi_pm", limit_s: 60, line: doctor::ON_ACPI_PM },
    Command { name: "bench", limit_s: 90, line: bench::COMMAND },
    Command { name: "source-after", limit_s: 10, line: "cat $CLOCKSOURCE" },
    Command { name: "lab-agreement", limit_s: 120, line: lab::AGREEMENT },
];
