//! What runs in the machine: this program, as the kernel's first one.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use linux::clock::LinuxClock;
use pvclock::counter::{Counter as _, Tsc};
use serde_json::Value;

use super::seen::{StockEvidence, StockReading};
use super::ticking::tightest;
use super::{power, ticking, vmclock};
use crate::initramfs;

const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0";
/// Tries of a reading, of which the shortest counts.
const TRIES: u32 = 200;
/// The kernel takes its final clock source some time after its programs start:
/// where the TSC has nothing to be measured by, 1 s and more
/// (tsc_refine_calibration_work, arch/x86/kernel/tsc.c).
const SETTLED: Duration = Duration::from_secs(3);
/// Words of the log's lines about clocks.
const ABOUT_CLOCKS: [&str; 7] =
    ["tsc", "clocksource", "kvm-clock", "hyper", "steal", "unstable", "msr access"];
const LINES: usize = 60;

/// What the first program does beside reporting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Words of a command line, any of them.
pub struct InsideReport {
    /// Stays: takes a CPU off and on again, and reports its clocks and timers from then on.
    pub stays: bool,
    /// Boots the kernel a second time, and leaves the rest to that.
    pub kexec: bool,
    /// It is that second one's.
    pub again: bool,
    /// How long `watch` has to be silent, and the kernel's watchdog with it, s.
    pub watch_s: u64,
}

/// Reports what the kernel says of its clocks on the console, and restarts the machine,
/// or stays. Does not return where that can be done.
///
/// # Errors
/// The machine cannot be restarted.
pub fn run_inside(inside: InsideReport) -> std::io::Result<()> {
    let stays = inside.stays;
    let mut errors = Vec::new();
    if let Err(error) = linux::init::mount_kernel_file_systems() {
        errors.push(format!("mount: {error}"));
    }
    // From here on only this program writes to the console.
    let _ = fs::write("/proc/sys/kernel/printk", "1 4 1 7");
    let modules = modules();
    if inside.kexec {
        // Its clocks are in use by then.
        thread::sleep(SETTLED);
        return power::boot_again(&modules.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?);
    }
    let has_vmclock = load(&modules, &mut errors);
    thread::sleep(SETTLED);
    let mut readings = vec![reading()];
    let mut by_vmclock = Vec::new();
    let mut read_vmclock = |errors: &mut Vec<String>| match vmclock::reading() {
        Ok(reading) => by_vmclock.push(reading),
        Err(error) if has_vmclock => errors.push(format!("VMClock: {error}")),
        Err(_) => {}
    };
    read_vmclock(&mut errors);
    let findings = findings(&mut errors);
    let disruptions = disruptions(inside.watch_s, &mut errors);
    if stays {
        unplug_last_cpu(&mut errors);
    }
    readings.push(reading());
    read_vmclock(&mut errors);
    let line = |name: &str| fs::read_to_string(name).unwrap_or_default().trim().to_owned();
    let available = line(&format!("{CLOCKSOURCES}/available_clocksource"));
    let seen = StockEvidence {
        release: line("/proc/sys/kernel/osrelease"),
        cpus: line("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count()
            as u32,
        clocksource: line(&format!("{CLOCKSOURCES}/current_clocksource")),
        available: available.split_whitespace().map(str::to_owned).collect(),
        log: log(&mut errors),
        findings,
        disruptions,
        errors,
        readings,
        vmclock: by_vmclock,
        again: inside.again,
    };
    let mut console = std::io::stdout().lock();
    console.write_all(seen.line().as_bytes())?;
    console.flush()?;
    if stays {
        drop(console);
        // Warnings too: after a restore they are complaints.
        let _ = fs::write("/proc/sys/kernel/printk", "5 4 1 7");
        return ticking::run();
    }
    // The terminal sends it by interrupts; a restart would cut it.
    thread::sleep(Duration::from_secs(1));
    linux::init::restart()
}

/// In the order of their names.
fn modules() -> Vec<PathBuf> {
    let folder = Path::new("/").join(initramfs::MODULES);
    let files = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}

/// Loads modules; whether one is a VMClock's driver.
fn load(files: &[PathBuf], errors: &mut Vec<String>) -> bool {
    for file in files {
        if let Err(error) = linux::init::load_module(file) {
            errors.push(format!("{}: {error}", file.display()));
        }
    }
    !files.is_empty()
}

/// Takes the last CPU off, if there are several, and on again.
fn unplug_last_cpu(errors: &mut Vec<String>) {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let Some((_, last)) = online.trim().split_once('-') else { return };
    for state in ["0", "1"] {
        if let Err(error) = fs::write(format!("/sys/devices/system/cpu/cpu{last}/online"), state) {
            errors.push(format!("CPU {last}, online {state}: {error}"));
        }
    }
}

/// The tightest of many.
fn reading() -> StockReading {
    let _pinned = linux::cpus::pin(0);
    let once = || {
        let before = Tsc.read_ordered();
        let real_ns = LinuxClock::Realtime.read_ns().unwrap_or(0);
        let raw_ns = LinuxClock::MonotonicRaw.read_ns().unwrap_or(0);
        StockReading { tsc: (before, Tsc.read_ordered()), real_ns, raw_ns }
    };
    tightest(TRIES, once, |reading| reading.tsc)
}

fn findings(errors: &mut Vec<String>) -> Vec<String> {
    let output = own(&["doctor", "--format", "json"], errors);
    let report: Value = match serde_json::from_str(&output) {
        Ok(report) => report,
        Err(error) => {
            errors.push(format!("doctor: {error}"));
            return Vec::new();
        }
    };
    let findings = report["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("?").to_owned();
    findings.iter().map(|one| format!("{} {}", word(one, "severity"), word(one, "rule"))).collect()
}

fn disruptions(watch_s: u64, errors: &mut Vec<String>) -> Vec<String> {
    let duration = format!("{watch_s}s");
    let output = own(&["watch", "--duration", &duration, "--format", "json"], errors);
    let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let disruptions = events.filter(|event| event["event"] == "disruption");
    disruptions.map(|event| event["kinds"].to_string()).collect()
}

/// The output of this program with other arguments.
fn own(arguments: &[&str], errors: &mut Vec<String>) -> String {
    let mut command = Command::new("/proc/self/exe");
    match command.args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => {
            if !output.stderr.is_empty() {
                let words = String::from_utf8_lossy(&output.stderr);
                errors.push(format!("{}: {}", arguments[0], words.trim()));
            }
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Err(error) => {
            errors.push(format!("{}: {error}", arguments[0]));
            String::new()
        }
    }
}

/// The kernel's log, which klogctl(2) reads whole.
fn log(errors: &mut Vec<String>) -> Vec<String> {
    let text = linux::init::kernel_log().unwrap_or_else(|error| {
        errors.push(format!("the kernel's log: {error}"));
        String::new()
    });
    about_clocks(&text)
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
    fn a_verdict_at_the_end_of_a_long_log_is_told() {
        let mut log = "tsc: Refined TSC clocksource calibration\nother\n".repeat(LINES);
        log.push_str("clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc'\n");
        let told = about_clocks(&log);
        assert_eq!(told.len(), LINES);
        assert!(told.last().is_some_and(|line| line.contains("watchdog")), "{told:?}");
    }
}
