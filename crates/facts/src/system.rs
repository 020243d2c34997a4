//! Which machine this is, and its load.

use schemars::JsonSchema;
use serde::Serialize;

use super::parse;
use crate::{Fact, Unknown};

/// Which machine this is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct System {
    /// DMI product name: `Standard PC (Q35 + ICH9, 2009)`, `VirtualBox`.
    pub product: Fact<String>,
    /// DMI vendor: `QEMU`, `innotek GmbH`, `Amazon EC2`.
    pub vendor: Fact<String>,
    /// ACPI's OEM id where the kernel log shows it (`FIRECK`, `BOCHS`): it
    /// identifies machines without DMI.
    pub acpi_oem: Fact<String>,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub distribution: Fact<String>,
    /// The container this runs in, if it does: `docker`, `lxc`, `podman`.
    pub container: Fact<String>,
    /// ACPI devices that tell a guest it was saved and restored or moved:
    /// `QEMUVGID`, `AMZNC10C`.
    pub generation_devices: Fact<Vec<String>>,
    /// The boot loaders' files that are here, of [`boot::FILES`].
    pub boot_files: Fact<Vec<String>>,
}

/// Files that tell how the kernel's command line is set.
pub mod boot {
    /// Path of the file: GRUB's settings.
    pub const GRUB: &str = "/etc/default/grub";
    /// Path of the file: what kernel-install(8) writes to systemd-boot's entries and
    /// unified kernel images.
    pub const KERNEL_INSTALL: &str = "/etc/kernel/cmdline";
    /// Path of the file: the partitions that proxmox-boot-tool keeps.
    pub const PROXMOX: &str = "/etc/kernel/proxmox-boot-uuids";
    /// Path of the file: a system deployed by OSTree.
    pub const OSTREE: &str = "/run/ostree-booted";
    /// Path of the file: a system that snapshots itself at each change (SUSE).
    pub const TRANSACTIONAL: &str = "/usr/sbin/transactional-update";
    /// All of them.
    pub const FILES: [&str; 5] = [GRUB, KERNEL_INSTALL, PROXMOX, OSTREE, TRANSACTIONAL];
}

/// Its load, and the CPU time stolen from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Load {
    /// Seconds since boot.
    pub uptime_s: Fact<f64>,
    /// When it booted, s since 1970: the time of day less `uptime_s`.
    pub booted_at_s: Fact<i64>,
    /// Load averages over 1, 5, 15 minutes.
    pub load_average: Fact<[f64; 3]>,
    /// Part of all CPUs' time since boot that the host stole, 0 to 1.
    pub steal_since_boot: Fact<f64>,
}

/// Path of the file.
pub const PRODUCT: &str = "/sys/class/dmi/id/product_name";
/// Path of the file.
pub const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
/// Path of the file.
pub const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Path of the file.
pub const UPTIME: &str = "/proc/uptime";
/// Path of the file.
pub const LOADAVG: &str = "/proc/loadavg";
/// Path of the file.
pub const STAT: &str = "/proc/stat";

/// The kept part of `os-release`.
pub fn reduce_os_release(text: &str) -> String {
    let keys = ["ID=", "VERSION_ID=", "PRETTY_NAME="];
    let kept = |line: &&str| keys.iter().any(|key| line.starts_with(key));
    text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

/// `PRETTY_NAME` of `os-release`, or `ID` and `VERSION_ID`.
pub fn parse_distribution(text: &str) -> Fact<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let value = line.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let plain = || match (value("ID="), value("VERSION_ID=")) {
        (Some(id), Some(version)) => Some(format!("{id} {version}")),
        (id, _) => id,
    };
    match value("PRETTY_NAME=").or_else(plain) {
        Some(name) => Fact::Known(name),
        None => Fact::Unknown(Unknown::malformed(OS_RELEASE[0], "PRETTY_NAME or ID", text)),
    }
}

/// The lines of `parachron/container`. A file left behind by a container's
/// image is no container where the namespaces are the machine's own.
pub fn parse_container(text: &str) -> Fact<String> {
    let not_in_one = |why| Fact::Unknown(Unknown::not_applicable(why));
    let hint = |start: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(start)).map(|rest| rest.trim())
    };
    if hint("namespaces") == Some("initial") {
        return not_in_one("not in a container: these are the machine's first namespaces");
    }
    let named = ["/run/systemd/container", "/proc/1/environ", "/proc/1/cgroup"];
    if let Some(name) = named.iter().find_map(|start| hint(start)).filter(|name| !name.is_empty()) {
        return Fact::Known(name.to_owned());
    }
    if hint("/.dockerenv").is_some() {
        Fact::Known("docker".to_owned())
    } else if hint("/run/.containerenv").is_some() {
        Fact::Known("podman".to_owned())
    } else if hint("namespaces") == Some("own") {
        Fact::Known("unrecognised".to_owned())
    } else {
        not_in_one("no sign of a container")
    }
}

/// The first number in `/proc/uptime`.
pub fn parse_uptime(text: &str) -> Fact<f64> {
    parse::word_f64(UPTIME, text, 0).into()
}

/// The kept part of `/proc/loadavg`: not the number of the last process.
pub fn reduce_loadavg(text: &str) -> String {
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ") + "\n"
}

/// The averages in `/proc/loadavg`.
pub fn parse_loadavg(text: &str) -> Fact<[f64; 3]> {
    let at = |index| parse::word_f64(LOADAVG, text, index);
    at(0).and_then(|minute| Ok([minute, at(1)?, at(2)?])).into()
}

/// The kept part of `/proc/stat`.
pub fn reduce_stat(text: &str) -> String {
    let kept = |line: &&str| line.starts_with("cpu") || line.starts_with("btime ");
    text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

/// The line `btime` of `/proc/stat`.
pub fn parse_booted_at(text: &str) -> Fact<i64> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "));
    match seconds.and_then(|word| word.trim().parse().ok()) {
        Some(seconds) => Fact::Known(seconds),
        None => Fact::Unknown(Unknown::not_there("btime in /proc/stat")),
    }
}

/// ACPI's names of devices that tell a guest of a restore or a move: VM
/// generation id (QEMU; Firecracker, `FCVMGID` in older versions and `VMGENCTR`
/// now; drivers/virt/vmgenid.c), and VMClock (drivers/ptp/ptp_vmclock.c).
const GENERATION_DEVICES: [&str; 6] =
    ["QEMUVGID", "FCVMGID", "VMGENCTR", "VM_GEN_COUNTER", "AMZNC10C", "VMCLOCK"];

/// Those of ACPI's devices (`QEMUVGID:00`) that tell of a restore or a move.
pub fn generation_devices(devices: &[String]) -> String {
    let names = devices.iter().filter_map(|device| device.split(':').next());
    names.filter(|name| GENERATION_DEVICES.contains(name)).map(|name| format!("{name}\n")).collect()
}

/// The lines of `parachron/generation-devices` or `parachron/boot-files`.
pub fn parse_lines(text: &str) -> Fact<Vec<String>> {
    Fact::Known(
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect(),
    )
}

/// CPU time since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Stolen by the host.
    pub stolen: u128,
    /// Idle, waiting for a device included.
    pub idle: u128,
    /// All that was counted.
    pub total: u128,
    /// The CPUs online.
    pub cpus: u32,
}

/// Of CPU time that programs see, in a second: `USER_HZ` of all of Linux's architectures
/// here (include/asm-generic/param.h).
const TICKS_PER_S: f64 = 100.0;

impl CpuTime {
    /// What was stolen since `earlier`, `over_s` s ago, as a part of all CPUs' time, 0 to 1.
    /// Nothing where no time passed, or a CPU came or went.
    ///
    /// Not a part of the total: of a tick with as much stolen the kernel counts nothing for the
    /// tasks that ran (`account_process_tick`,
    /// kernel/sched/cputime.c). A CPU that two take turns at tick by tick shows nothing but
    /// steal.
    ///
    /// ```
    /// use facts::system::CpuTime;
    /// let before = CpuTime { stolen: 20, idle: 500, total: 600, cpus: 2 };
    /// let now = CpuTime { stolen: 30, idle: 570, total: 690, cpus: 2 };
    /// assert_eq!(now.stolen_since(before, 0.5), Some(0.1));
    /// assert_eq!(now.stolen_since(before, 0.0), None);
    /// ```
    pub fn stolen_since(self, earlier: Self, over_s: f64) -> Option<f64> {
        let is_comparable = self.cpus == earlier.cpus;
        let stolen = self.stolen.checked_sub(earlier.stolen).filter(|_| is_comparable)?;
        Self { stolen, ..self }.of_all(over_s)
    }

    /// How long CPUs idled since `earlier`, `over_s` s ago, as a part of all CPUs' time.
    pub fn idle_since(self, earlier: Self, over_s: f64) -> Option<f64> {
        let is_comparable = self.cpus == earlier.cpus;
        let idle = self.idle.checked_sub(earlier.idle).filter(|_| is_comparable)?;
        Self { stolen: idle, ..self }.of_all(over_s)
    }

    /// What was stolen since boot, 0 to 1, as a part of the time that the CPUs of now had since.
    /// Where that is not known, as a part of the total, which is too much where CPUs are
    /// taken turns at (see [`CpuTime::stolen_since`]). It is too little after a suspend, whose
    /// time the uptime has and the CPUs do not.
    ///
    /// ```
    /// use facts::system::CpuTime;
    /// // Two take turns at a CPU for 60 s, of which the kernel counts 30 s as stolen, and for
    /// // the tasks 17 s alone.
    /// let now = CpuTime { stolen: 3000, idle: 0, total: 4700, cpus: 1 };
    /// assert_eq!(now.stolen_since_boot(Some(60.0)), 0.5);
    /// assert_eq!(now.stolen_since_boot(None), 30.0 / 47.0);
    /// ```
    pub fn stolen_since_boot(self, uptime_s: Option<f64>) -> f64 {
        let of_total = || self.stolen as f64 / (self.total as f64).max(1.0);
        uptime_s.and_then(|over_s| self.of_all(over_s)).unwrap_or_else(of_total)
    }

    /// What was stolen, as a part of these CPUs' time of so many s.
    fn of_all(self, over_s: f64) -> Option<f64> {
        let all_s = over_s * f64::from(self.cpus);
        (all_s > 0.0).then(|| (self.stolen as f64 / TICKS_PER_S / all_s).min(1.0))
    }
}

/// What the line `cpu` of `/proc/stat` has as stolen, as a part of all time since boot.
pub fn parse_steal(text: &str, uptime_s: Option<f64>) -> Fact<f64> {
    parse_cpu_time(text).map(|now| now.stolen_since_boot(uptime_s))
}

/// The line `cpu` of `/proc/stat`, and how many CPUs have one of their own.
pub fn parse_cpu_time(text: &str) -> Fact<CpuTime> {
    let is_of_one = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.chars().next());
        number.is_some_and(|first| first.is_ascii_digit())
    };
    let cpus = text.lines().filter(is_of_one).count() as u32;
    let malformed = || Unknown::malformed(STAT, "a line `cpu` with eight numbers", text);
    let parse = || {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).ok_or_else(malformed)?;
        // user nice system idle iowait irq softirq steal; guest time, which
        // follows, is counted in user already (`man 5 proc_stat`).
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map_while(|w| w.parse().ok()).collect();
        let &[_, _, _, idle, iowait, _, _, steal] = ticks.as_slice() else {
            return Err(malformed());
        };
        let total = ticks.iter().map(|&ticks| u128::from(ticks)).sum();
        Ok(CpuTime {
            stolen: steal.into(),
            idle: u128::from(idle) + u128::from(iowait),
            total,
            cpus,
        })
    };
    parse().into()
}

#[cfg(test)]
mod tests;
