//! Facts that are in no file, or in files too large or private to save: read
//! from the kernel, the processor or a program.
//!
//! Each probe returns the text form of a captured tree, so that live and
//! captured facts go through the same parsers.

pub(crate) mod chrony_config;
#[cfg_attr(not(target_arch = "x86_64"), path = "probes/cpuid_elsewhere.rs")]
pub(crate) mod cpuid;
pub(crate) mod kernel_log;
#[cfg_attr(not(target_arch = "x86_64"), path = "probes/kvm_elsewhere.rs")]
pub(crate) mod kvm;
pub(crate) mod ntp_config;
pub mod pvclock_page;
pub(crate) mod time_keepers;
pub(crate) mod unit_states;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use facts::hardware::VmClock;
use facts::{Fact, Unknown, cpu};
use linux::counter;
use linux::vmclock::VmClockDevice;
use rustix::fs::Access;

use crate::probes::kernel_log::KernelLog;
use crate::tree::Files;
use crate::vmclock_device;

/// The fields of [`facts::cpu::parse_generic_timer`].
pub(crate) fn generic_timer_registers() -> Fact<String> {
    if !cfg!(target_arch = "aarch64") {
        return cpu::not_arm64().map(|_| String::new());
    }
    let is_readable = counter::is_readable();
    let hz = counter::frequency().filter(|_| is_readable).map_or(0, |hertz| hertz.0);
    Fact::Known(format!(
        "frequency_hz {hz}\nreadable {}\nself_synchronised {}\n",
        u8::from(is_readable),
        u8::from(counter::is_self_ordered()),
    ))
}

/// RTC minus system clock, s.
pub(crate) fn rtc_minus_system(device: &str) -> Fact<String> {
    let path = format!("/sys/class/rtc/{device}/since_epoch");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Fact::Unknown(crate::unknown_of(&path, &error)),
    };
    let system_s = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64());
    let (Ok(rtc_s), Ok(system_s)) = (text.trim().parse::<i64>(), system_s) else {
        return Fact::Unknown(Unknown::malformed(&path, "seconds since 1970", &text));
    };
    // The RTC shows whole seconds: on average half of one is hidden.
    Fact::Known(format!("{:.0}\n", rtc_s as f64 + 0.5 - system_s))
}

/// The fields of [`facts::steering::parse_adjtimex`].
pub(crate) fn adjtimex_state() -> Fact<String> {
    match linux::adjtimex::read() {
        Ok(read) => Fact::Known(format!(
            "offset {}\nfrequency {}\nmaxerror {}\nesterror {}\nstatus {}\ntick {}\ntai {}\nstate {}\n",
            read.offset,
            read.frequency,
            read.max_error_us,
            read.estimated_error_us,
            read.status,
            read.tick_us,
            read.tai_s,
            read.state,
        )),
        Err(error) => Fact::Unknown(crate::unknown_of("adjtimex", &error)),
    }
}

/// The fields of [`facts::hardware::parse_vmclock`].
pub(crate) fn vmclock_page() -> Fact<String> {
    vmclock_device::open(Path::new(VmClockDevice::PATH))
        .and_then(|device| vmclock_device::fact(&device))
        .map(|page| vmclock_text(&page))
}

fn vmclock_text(page: &VmClock) -> String {
    let VmClock { device, disruption_marker, vm_generation, clock_status } = page;
    let mut text = format!(
        "device {device}\ndisruption_marker {disruption_marker}\nclock_status {clock_status}\n"
    );
    if let Some(generation) = vm_generation {
        text.push_str(&format!("vm_generation {generation}\n"));
    }
    text
}

/// Those of the named devices whose file can be opened, one a line.
pub(crate) fn readable_ptp(devices: &[String]) -> Fact<String> {
    let can = |name: &&String| rustix::fs::access(format!("/dev/{name}"), Access::READ_OK).is_ok();
    Fact::Known(devices.iter().filter(can).map(|name| format!("{name}\n")).collect())
}

/// The links below `/dev` to the named devices, one a line: the link, the device.
pub(crate) fn ptp_links(devices: &[String]) -> Fact<String> {
    let mut text = String::new();
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut links: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    links.sort();
    for link in links.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with("ptp"))
    {
        let Ok(to) = std::fs::read_link(format!("/dev/{link}")) else { continue };
        let to = to.file_name().and_then(|name| name.to_str());
        if let Some(device) = to.filter(|to| devices.iter().any(|device| device == to)) {
            text.push_str(&format!("{link} {device}\n"));
        }
    }
    Fact::Known(text)
}

// The vendor's name in ACPI's tables, and devices that tell of a restore.

const FACP: &str = "/sys/firmware/acpi/tables/FACP";

/// The bytes of a table's header that hold the vendor's name (ACPI
/// specification, System Description Table Header).
const OEM_ID: std::ops::Range<usize> = 10..16;

/// The name, from the table (as root) or from the log.
pub(crate) fn acpi_oem(files: &Files, log: &KernelLog) -> Fact<String> {
    match files.bytes(FACP, 1 << 16) {
        Fact::Known(table) => match table.get(OEM_ID) {
            Some(name) => {
                Fact::Known(String::from_utf8_lossy(name).trim_matches([' ', '\0']).to_owned())
            }
            None => {
                let found = format!("{} bytes", table.len());
                Fact::Unknown(Unknown::malformed(FACP, "a table's header", &found))
            }
        },
        Fact::Unknown(why) => match log.text(files).value().and_then(|log| acpi_in_log(log)) {
            Some(name) => Fact::Known(name),
            None => Fact::Unknown(why),
        },
    }
}

/// The devices among ACPI's that tell of a restore or a move, one a line.
pub(crate) fn generation_devices(files: &Files) -> Fact<String> {
    files.names("/sys/bus/acpi/devices").map(|all| facts::system::generation_devices(&all))
}

/// `ACPI: RSDP 0x00000000000E0000 000024 (v02 FIRECK)`
pub(crate) fn acpi_in_log(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("ACPI: RSDP "))?;
    let (_, inside) = line.rsplit_once('(')?;
    let mut words = inside.trim_end().trim_end_matches(')').split_whitespace();
    words.next()?.strip_prefix('v')?;
    words.next().map(str::to_owned)
}

/// The initial namespaces' numbers are fixed (include/linux/proc_ns.h).
const FIRST_PID: &str = "pid:[4026531836]";
const FIRST_UTS: &str = "uts:[4026531838]";
const FIRST_IPC: &str = "ipc:[4026531839]";

const CONTAINER_LIMIT_BYTES: u64 = 1 << 16;

/// Words in the first process's control group that identify a runtime.
const CGROUPS: &[&str] = &["docker", "kubepods", "libpod", "lxc", "garden"];

/// Evidence that this is a container: the lines of [`facts::system::parse_container`].
pub(crate) fn container_hints(files: &Files) -> Fact<String> {
    let mut hints = Vec::new();
    if let Some(is_first) = files.is_live().then(first_namespaces).flatten() {
        hints.push(format!("namespaces {}", if is_first { "initial" } else { "own" }));
    }
    for path in ["/.dockerenv", "/run/.containerenv"] {
        if files.exists(path) {
            hints.push(path.to_owned());
        }
    }
    let text = |path: &str| {
        let bytes = files.bytes(path, CONTAINER_LIMIT_BYTES);
        bytes.value().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    if let Some(name) = text("/run/systemd/container") {
        hints.push(format!("/run/systemd/container {}", name.trim()));
    }
    let environment = text("/proc/1/environ").unwrap_or_default();
    if let Some(name) = environment.split('\0').find_map(|word| word.strip_prefix("container=")) {
        hints.push(format!("/proc/1/environ {name}"));
    }
    let groups = text("/proc/1/cgroup").unwrap_or_default();
    if let Some(name) = CGROUPS.iter().find(|name| groups.contains(**name)) {
        hints.push(format!("/proc/1/cgroup {name}"));
    }
    if hints.is_empty() && !files.exists("/proc/1") {
        return Fact::Unknown(Unknown::not_there("parachron/container"));
    }
    Fact::Known(hints.join("\n") + "\n")
}

/// Whether this process is in the first process's namespaces. A service with
/// its own host name (`ProtectHostname=`) is still no container. Without /proc that is unknown.
fn first_namespaces() -> Option<bool> {
    let is = |kind: &str, first: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}"));
        link.ok().map(|link| link.as_os_str() == first)
    };
    let is_any = is("uts", FIRST_UTS) == Some(true) || is("ipc", FIRST_IPC) == Some(true);
    Some(is("pid", FIRST_PID)? && is_any)
}
