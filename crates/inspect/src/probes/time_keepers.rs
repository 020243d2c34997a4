//! Which programs that set the clock are installed, and which run.

use std::collections::BTreeMap;

use crate::tree::Files;
use facts::steering::TimeKeeperKind::{self, *};
use facts::steering::is_unit_name;
use facts::{Fact, Unknown};
use linux::system_clock::has_capability;

/// A time keeper is installed if any of these files exists, and runs if a
/// process that may set the clock has any of these names, of which the kernel
/// keeps 15 characters, or is of any of its units, whatever its name.
pub(super) type Signs = (TimeKeeperKind, &'static [&'static str], &'static [&'static str], Units);

/// Units of the system's own slice, without `.service`, as distributions name them, and
/// templates of the same name (`ptp4l@eth0` of linuxptp in Debian, `chrony@mgmt` of Cumulus
/// Linux): only root starts a process there.
pub(super) type Units = &'static [&'static str];

pub(super) const SIGNS: &[Signs] = &[
    (Chrony, &["/usr/sbin/chronyd"], &["chronyd"], &["chrony", "chronyd"]),
    (
        SystemdTimesyncd,
        &["/usr/lib/systemd/systemd-timesyncd", "/lib/systemd/systemd-timesyncd"],
        &["systemd-timesyn"],
        &["systemd-timesyncd"],
    ),
    (NtpdRs, &["/usr/bin/ntp-daemon", "/usr/sbin/ntp-daemon"], &["ntp-daemon"], &["ntpd-rs"]),
    // From release 3 it corrects the clock, by root's right and in no other way (its
    // `SystemClockDiscipliner`; its unit Conflicts= with chronyd's and timesyncd's). Release 2
    // left that to chronyd, for whose user it runs (clock-bound-d/README.md): it may not set
    // the clock, and does not count.
    (
        Clockbound,
        &["/usr/bin/clockbound", "/usr/local/bin/clockbound"],
        &["clockbound"],
        &["clockbound"],
    ),
    // It polls time servers unless `TimeUpdates=manual`, and calls adjtime or settimeofday
    // (decode_msg, src/ntp.c of connman).
    (Connman, &["/usr/sbin/connmand", "/usr/bin/connmand"], &["connmand"], &["connman"]),
    // As a daemon it adjusts the clock, and by `-x` its frequency (htpdate(8)).
    (Htpdate, &["/usr/sbin/htpdate", "/usr/bin/htpdate"], &["htpdate"], &["htpdate"]),
    (
        LinuxPtp,
        &["/usr/sbin/phc2sys", "/usr/bin/phc2sys"],
        &["ptp4l", "phc2sys"],
        &["phc2sys", "ptp4l"],
    ),
    (
        VirtualBoxService,
        &["/usr/sbin/VBoxService", "/usr/bin/VBoxService"],
        &["VBoxService"],
        &["vboxadd-service", "virtualbox-guest-utils", "vboxservice"],
    ),
    (
        VmwareTools,
        &["/usr/bin/vmtoolsd", "/usr/sbin/vmtoolsd"],
        &["vmtoolsd"],
        &["open-vm-tools", "vmtoolsd"],
    ),
    (
        QemuGuestAgent,
        &["/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"],
        &["qemu-ga"],
        &["qemu-guest-agent"],
    ),
    // Names of processes, of which the kernel keeps 15 characters.
    (
        GoogleGuestAgent,
        &["/usr/bin/google_guest_agent", "/usr/bin/google_clock_skew_daemon"],
        &["google_guest_ag", "google_clock_sk"],
        &["google-guest-agent", "google-clock-skew-daemon"],
    ),
];

/// Both ntpd and OpenNTPD run as `ntpd`; only OpenNTPD has these files.
const OPENNTPD: &[&str] = &["/usr/sbin/ntpctl", "/usr/bin/ntpctl"];
const NTPD: &[&str] = &["/usr/sbin/ntpd", "/usr/bin/ntpd", "/sbin/ntpd"];
pub(super) const NTPD_UNITS: Units = &["ntpsec", "ntp", "ntpd", "openntpd"];

/// Bound to the VMBus, hv_utils handles the host's time synchronisation.
const HV_UTILS: &str = "/sys/bus/vmbus/drivers/hv_utils";

/// Programs that show others adjtimex's offset, by the names of their
/// processes: Debian's package calls it prometheus-node-exporter.
const OFFSET_READERS: [(&str, &str); 2] =
    [("node_exporter", "node_exporter"), ("prometheus-node", "node_exporter")];

/// Our own processes: a command of many, and the daemon.
const PARACHRON: &str = "parachron";
const PARACHROND: &str = "parachrond";
/// Where packages, and packaging/README.md by hand, put the daemon.
const PARACHROND_FILE: &str = "/usr/bin/parachrond";

/// More than `/proc/PID/status` has, and than a command line of `keep` needs.
const STATUS_BYTES: u64 = 64 << 10;
const COMMAND_BYTES: u64 = 64 << 10;
const SETTINGS: &str = "/etc/parachron/parachrond.toml";
pub(super) const SETTINGS_BYTES: u64 = 64 << 10;

/// Where systemd has its groups: the one hierarchy, and the named one of version 1
/// (<https://systemd.io/CGROUP_DELEGATION>).
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"];

/// What the processes show of one that runs.
#[derive(Debug, Default)]
struct ShownKeeper {
    unit: Option<String>,
    by_unit_alone: bool,
    leaves_clock: bool,
}

/// This machine's processes, as far as they can be read.
struct Processes<'f> {
    files: &'f Files,
    names: BTreeMap<String, Vec<u32>>,
    /// `/proc` shows only this user's (`hidepid`).
    are_hidden: bool,
}

/// The lines of [`facts::steering::parse_offset_readers`].
pub(crate) fn offset_readers(files: &Files) -> Fact<String> {
    match files.processes() {
        Fact::Unknown(_) if !files.is_live() => {
            Fact::Unknown(Unknown::not_there("parachron/offset-readers"))
        }
        processes => processes.map(|processes| {
            let running = OFFSET_READERS.iter().filter(|(name, _)| processes.contains_key(*name));
            running.map(|(_, program)| format!("{program}\n")).collect()
        }),
    }
}

/// The lines of [`facts::steering::parse_keepers`].
pub(crate) fn find(files: &Files) -> Fact<String> {
    if files.is_live() && !is_first_pid_namespace() {
        return Fact::Unknown(Unknown::Unreadable {
            what: "the machine's processes".to_owned(),
            error: "this is a container with its own processes".to_owned(),
        });
    }
    // Mounted with hidepid, /proc shows only this user's processes.
    let are_hidden = files.is_live() && files.bytes("/proc/1/comm", 64).value().is_none();
    list(files, are_hidden)
}

fn list(files: &Files, are_hidden: bool) -> Fact<String> {
    let names = match files.processes() {
        Fact::Known(names) => names,
        Fact::Unknown(_) if !files.is_live() => {
            return Fact::Unknown(Unknown::not_there("parachron/time-keepers"));
        }
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    let processes = Processes { files, names, are_hidden };
    let any = |paths: &[&str]| paths.iter().any(|path| files.exists(path));
    let mut text = String::new();
    let mut is_disciplined = false;
    let mut put = |kind: TimeKeeperKind, installed: bool, running: Option<ShownKeeper>| {
        if installed || running.is_some() {
            let sets = running.as_ref().is_some_and(|shown| !shown.leaves_clock);
            is_disciplined |= sets && kind.disciplines();
            text.push_str(&line(kind, installed, running));
        }
    };
    for (kind, files, names, units) in SIGNS {
        let shown = processes.find(names, units).or_else(|| processes.find_idle(names));
        put(*kind, any(files), shown);
    }
    let (openntpd, ntpd) = (any(OPENNTPD), processes.find(&["ntpd"], NTPD_UNITS));
    let [by_openntpd, by_ntpd] = if openntpd { [ntpd, None] } else { [None, ntpd] };
    put(Openntpd, openntpd, by_openntpd);
    put(Ntpd, !openntpd && any(NTPD), by_ntpd);
    let hv_utils = files.exists(HV_UTILS);
    put(HypervUtils, hv_utils, hv_utils.then(ShownKeeper::default));
    let keeps =
        |id: &&u32| keeps_the_clock(files, **id) && processes.may_set_the_clock(**id) == Some(true);
    let mut ours = [PARACHRON, PARACHROND].into_iter().flat_map(|name| processes.ids(name));
    put(
        ParachronKeep,
        any(&[PARACHROND_FILE]),
        ours.find(keeps).map(|id| processes.by_process(*id)),
    );
    // Who has no unit of these names is not shown then. One that disciplines the clock is
    // what is asked for; guest tools, hv_utils or a keeper beside it say nothing of others.
    if are_hidden && !is_disciplined {
        return Fact::Unknown(Unknown::NeedsRoot { what: "other users' processes".to_owned() });
    }
    Fact::Known(text)
}

fn line(kind: TimeKeeperKind, installed: bool, running: Option<ShownKeeper>) -> String {
    let mut line = kind.name().to_owned();
    line.push_str(if installed { " installed" } else { "" });
    if let Some(ShownKeeper { unit, by_unit_alone, leaves_clock }) = running {
        line.push_str(if leaves_clock { " leaves-clock" } else { " running" });
        line.extend(unit.map(|unit| format!(" unit={unit}")));
        line.push_str(if by_unit_alone { " by-unit-alone" } else { "" });
    }
    line + "\n"
}

impl Processes<'_> {
    fn ids(&self, name: &str) -> &[u32] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    fn by_process(&self, process: u32) -> ShownKeeper {
        ShownKeeper { unit: unit_of(self.files, process), ..ShownKeeper::default() }
    }

    /// A process of one of these names that was told not to set the clock.
    fn find_idle(&self, names: &[&str]) -> Option<ShownKeeper> {
        let mut named = names.iter().flat_map(|name| self.ids(name));
        let id = named.find(|id| self.leaves_clock(**id))?;
        Some(ShownKeeper { leaves_clock: true, ..self.by_process(*id) })
    }

    /// A process of one of these names, or else of one of these units, that may set the
    /// clock; where that cannot be read, the unit counts.
    fn find(&self, names: &[&str], units: Units) -> Option<ShownKeeper> {
        let mut named = names.iter().flat_map(|name| self.ids(name));
        if let Some(id) = named.find(|id| self.may_set_the_clock(**id) == Some(true)) {
            return Some(self.by_process(*id));
        }
        let units = units.iter().flat_map(|unit| {
            let alone = std::iter::once(format!("{unit}.service"));
            alone.chain(instances(self.files, unit))
        });
        units.into_iter().find_map(|unit| {
            let may = self.of_unit(&unit).into_iter().map(|id| self.may_set_the_clock(id));
            // The surest of them: it may, it cannot be read, it may not.
            let may = may.max_by_key(|may| may.map_or(1, |may| if may { 2 } else { 0 }))?;
            let by_unit_alone = may.is_none() && self.are_hidden;
            let runs = may == Some(true) || by_unit_alone;
            let leaves_clock = false;
            runs.then_some(ShownKeeper { unit: Some(unit), by_unit_alone, leaves_clock })
        })
    }

    /// The processes of a unit of the system's slice.
    fn of_unit(&self, unit: &str) -> Vec<u32> {
        let mut read = groups(self.files, unit);
        let bytes = read.find_map(|read| read.value().cloned()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter_map(|id| id.trim().parse().ok()).collect()
    }

    /// Whether it has the right to: anybody can give a process a daemon's name, and
    /// in a container a daemon runs without it. Where that is not shown, as in a
    /// tree made by hand, the name counts.
    fn may_set_the_clock(&self, process: u32) -> Option<bool> {
        let path = format!("/proc/{process}/status");
        let Fact::Known(status) = self.files.bytes(&path, STATUS_BYTES) else {
            return (!self.files.is_live() && !self.are_hidden).then_some(true);
        };
        let status = String::from_utf8_lossy(&status);
        let may = has_capability(&status).unwrap_or(true) && !self.leaves_clock(process);
        Some(may && !is_in_user_namespace(self.files, process))
    }

    /// Whether it is a chronyd that was started not to control the clock (chronyd(8), -x).
    fn leaves_clock(&self, process: u32) -> bool {
        let line = self.files.bytes(&format!("/proc/{process}/cmdline"), COMMAND_BYTES);
        let mut words = line.value().map_or(&[][..], Vec::as_slice).split(|byte| *byte == 0);
        words.next().is_some_and(|path| path.ends_with(b"chronyd"))
            && words.any(|word| word == b"-x")
    }
}

/// The slice of a template's instances, which systemd makes where the template names none:
/// `system.slice/system-chrony.slice`, with `-` as `\\x2d` (systemd.special(7),
/// `unit_set_default_slice`, src/core/unit.c).
fn slice_of(template: &str) -> String {
    format!("system.slice/system-{}.slice", template.replace('-', "\\x2d"))
}

/// The services that are instances of a template, as `chrony@mgmt.service`.
fn instances(files: &Files, template: &str) -> Vec<String> {
    let slice = slice_of(template);
    let named = |group: &&str| files.names(&format!("{group}/{slice}"));
    let names = GROUPS.iter().find_map(|group| named(group).value().cloned()).unwrap_or_default();
    let is_one = |name: &String| {
        let instance = name.strip_prefix(template).and_then(|rest| rest.strip_prefix('@'));
        instance.is_some_and(|rest| rest.ends_with(".service")) && is_unit_name(name)
    };
    names.into_iter().filter(is_one).collect()
}

/// The processes of a unit of the system's slice, as either version lists them.
fn groups(files: &Files, unit: &str) -> impl Iterator<Item = Fact<Vec<u8>>> {
    let slice = unit.split_once('@').map_or("system.slice".to_owned(), |(it, _)| slice_of(it));
    let path = move |group: &str| format!("{group}/{slice}/{unit}/cgroup.procs");
    GROUPS.iter().map(move |group| files.bytes(&path(group), STATUS_BYTES))
}

/// Whether a unit of the system's slice has no process any more; where that cannot be
/// read it may have.
pub(crate) fn has_ended(files: &Files, unit: &str) -> bool {
    groups(files, unit).all(|read| match read {
        Fact::Known(processes) => processes.trim_ascii().is_empty(),
        Fact::Unknown(why) => matches!(why, Unknown::NotThere { .. }),
    })
}

/// The systemd unit of a process, by its control group (cgroups(7)): `0::/system.slice/
/// chrony.service`, or of version 1 `1:name=systemd:/…`.
fn unit_of(files: &Files, process: u32) -> Option<String> {
    let read = files.bytes(&format!("/proc/{process}/cgroup"), STATUS_BYTES);
    let text = String::from_utf8_lossy(read.value()?).into_owned();
    let mut groups = text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        matches!(controllers, "" | "name=systemd").then_some(path)
    });
    groups.find_map(system_unit).filter(|unit| is_unit_name(unit)).map(str::to_owned)
}

/// The system's service whose own group this is: `/system.slice/ntp.service`, or
/// `/system.slice/system-ntp.slice/ntp@1.service`. An ancestor is another: what a user
/// starts is below `user@1000.service`, which runs all of that user's.
fn system_unit(group: &str) -> Option<&str> {
    let mut path = group.strip_prefix("/system.slice/")?.rsplit('/');
    let unit = path.next().filter(|unit| unit.ends_with(".service"))?;
    path.all(|slice| slice.ends_with(".slice")).then_some(unit)
}

/// Whether it is in a user namespace of its own, where anybody has all
/// capabilities (`unshare --user`) and none reaches the clock. Only root can
/// map all users into one, as the first has them (user_namespaces(7)).
fn is_in_user_namespace(files: &Files, process: u32) -> bool {
    let map = files.bytes(&format!("/proc/{process}/uid_map"), STATUS_BYTES);
    let map = map.value().map(|map| String::from_utf8_lossy(map).into_owned());
    map.is_some_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether a process of ours is `keep` and corrects the clock by itself: a dry
/// run does not, and with `--chrony` chronyd does.
fn keeps_the_clock(files: &Files, process: u32) -> bool {
    // Keep itself wants to know of others.
    if files.is_live() && process == std::process::id() {
        return false;
    }
    let Fact::Known(line) = files.bytes(&format!("/proc/{process}/cmdline"), COMMAND_BYTES) else {
        return false;
    };
    let mut words = line.split(|byte| *byte == 0);
    let is_daemon = words.next().is_some_and(|path| path.ends_with(PARACHROND.as_bytes()));
    let is_keep = is_daemon || words.next() == Some(b"keep");
    let leaves_it = |word: &[u8]| word == b"--dry-run" || word.starts_with(b"--chrony");
    is_keep && !words.clone().any(leaves_it) && !(is_daemon && is_configured_to_leave(files, words))
}

/// Whether the file with a daemon's settings, by the words of its command line, has
/// `dry-run` or `chrony` set: the file is flat, with a key a line.
fn is_configured_to_leave<'w>(files: &Files, mut words: impl Iterator<Item = &'w [u8]>) -> bool {
    let mut named = None;
    while let Some(word) = words.next() {
        if word == b"--config" {
            named = words.next();
        } else if let Some(path) = word.strip_prefix(b"--config=") {
            named = Some(path);
        }
    }
    let path = named.map_or(SETTINGS.into(), String::from_utf8_lossy);
    let Fact::Known(text) = files.bytes(&path, SETTINGS_BYTES) else { return false };
    String::from_utf8_lossy(&text).lines().any(|line| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        let value = value.split('#').next().unwrap_or_default().replace([' ', '\t'], "");
        match key.trim() {
            "dry-run" => value == "true",
            "chrony" => value != "[]",
            _ => false,
        }
    })
}

/// In its own namespace, a container sees none of the host's daemons
/// (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
fn is_first_pid_namespace() -> bool {
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(link) => link.as_os_str() == "pid:[4026531836]",
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests;
