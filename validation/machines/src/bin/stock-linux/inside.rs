//! What runs in the machine: this program, as the kernel's first one.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::Duration;

use crate::report::{self, Booted, Line};
use crate::{AGAIN, KEXEC, init, kexec};

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The kernel takes its final clock source some time after its programs start:
/// where the TSC has nothing to be measured by, 1 s and more
/// (tsc_refine_calibration_work, arch/x86/kernel/tsc.c). Its watchdog has looked by then.
const SETTLED: Duration = Duration::from_secs(6);
/// Words of the log's lines about clocks.
const ABOUT_CLOCKS: [&str; 7] =
    ["tsc", "clocksource", "kvm-clock", "hyper", "steal", "unstable", "msr access"];
const LINES: usize = 60;
/// The kernel of a second boot, and its initramfs.
const KERNEL: &str = "/kernel";
const INITRD: &str = "/again";

/// Reports what the kernel says of its clocks on the console, and its clocks from then on, or
/// boots the kernel a second time, and leaves the rest to that.
pub(crate) fn run(words: &[&str]) -> io::Result<()> {
    init::mount_kernel_file_systems()?;
    // From here on only this program writes to the console.
    fs::write("/proc/sys/kernel/printk", "1 4 1 7")?;
    thread::sleep(SETTLED);
    if words.contains(&KEXEC) {
        let parameters = CString::new(second(&fs::read_to_string("/proc/cmdline")?))?;
        return kexec::boot(&File::open(KERNEL)?, &File::open(INITRD)?, &parameters);
    }
    let line = |name: &str| fs::read_to_string(name).unwrap_or_default().trim().to_owned();
    report::write(&Line::Booted(Booted {
        release: line("/proc/sys/kernel/osrelease"),
        cpus: line("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count(),
        clocksource: line(CLOCKSOURCE),
        log: about_clocks(&init::kernel_log()?),
        again: words.contains(&AGAIN),
    }))?;
    // Warnings too: after a restore they are complaints.
    fs::write("/proc/sys/kernel/printk", "5 4 1 7")?;
    report::write_ticks()
}

fn second(parameters: &str) -> String {
    let words = parameters.split_whitespace();
    words.map(|word| if word == KEXEC { AGAIN } else { word }).collect::<Vec<_>>().join(" ")
}

/// The last of them: a verdict comes late.
fn about_clocks(log: &str) -> Vec<String> {
    let is_about = |line: &&str| {
        let line = line.to_lowercase();
        ABOUT_CLOCKS.iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = log.lines().filter(is_about).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_at_the_end_of_a_long_log_is_reported() {
        let mut log = "tsc: Refined TSC clocksource calibration\nother\n".repeat(LINES);
        log.push_str("clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc'\n");
        let reported = about_clocks(&log);
        assert_eq!(reported.len(), LINES);
        assert!(reported.last().is_some_and(|line| line.contains("watchdog")), "{reported:?}");
    }

    #[test]
    fn the_second_kernel_is_told_that_it_is_the_second() {
        assert_eq!(second("console=ttyS0 -- inside kexec\n"), "console=ttyS0 -- inside again");
    }
}
