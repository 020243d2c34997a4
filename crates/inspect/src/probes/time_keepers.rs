//! Which programs that set the clock are installed, and which run.

use std::collections::BTreeMap;

use crate::tree::Files;
use facts::steering::TimeKeeperKind::{self, *};
use facts::{Fact, Unknown};
use linux::system_clock::has_capability;

/// A time keeper is installed if any of these files exists, and runs if a
/// process that may set the clock has any of these names, of which the kernel
/// keeps 15 characters.
type Signs = (TimeKeeperKind, &'static [&'static str], &'static [&'static str]);

const SIGNS: &[Signs] = &[
    (Chrony, &["/usr/sbin/chronyd"], &["chronyd"]),
    (
        SystemdTimesyncd,
        &["/usr/lib/systemd/systemd-timesyncd", "/lib/systemd/systemd-timesyncd"],
        &["systemd-timesyn"],
    ),
    (NtpdRs, &["/usr/bin/ntp-daemon", "/usr/sbin/ntp-daemon"], &["ntp-daemon"]),
    (LinuxPtp, &["/usr/sbin/phc2sys", "/usr/bin/phc2sys"], &["ptp4l", "phc2sys"]),
    (VirtualBoxService, &["/usr/sbin/VBoxService", "/usr/bin/VBoxService"], &["VBoxService"]),
    (VmwareTools, &["/usr/bin/vmtoolsd", "/usr/sbin/vmtoolsd"], &["vmtoolsd"]),
    (QemuGuestAgent, &["/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"], &["qemu-ga"]),
];

/// Both ntpd and OpenNTPD run as `ntpd`; only OpenNTPD has these files.
const OPENNTPD: &[&str] = &["/usr/sbin/ntpctl", "/usr/bin/ntpctl"];
const NTPD: &[&str] = &["/usr/sbin/ntpd", "/usr/bin/ntpd", "/sbin/ntpd"];

/// Bound to the VMBus, hv_utils handles the host's time synchronisation.
const HV_UTILS: &str = "/sys/bus/vmbus/drivers/hv_utils";

/// Programs that show others adjtimex's offset, by the names of their
/// processes: Debian's package calls it prometheus-node-exporter.
const OFFSET_READERS: [(&str, &str); 2] =
    [("node_exporter", "node_exporter"), ("prometheus-node", "node_exporter")];

/// Our own processes: a command of many, and the daemon.
const PARACHRON: &str = "parachron";
const PARACHROND: &str = "parachrond";

/// More than `/proc/PID/status` has, and than a command line of `keep` needs.
const STATUS_BYTES: u64 = 64 << 10;
const COMMAND_BYTES: u64 = 64 << 10;

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
    let processes = match files.processes() {
        Fact::Known(processes) => processes,
        Fact::Unknown(_) if !files.is_live() => {
            return Fact::Unknown(Unknown::not_there("parachron/time-keepers"));
        }
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    if files.is_live() && !is_first_pid_namespace() {
        return Fact::Unknown(Unknown::Unreadable {
            what: "the machine's processes".to_owned(),
            error: "this is a container with its own processes".to_owned(),
        });
    }
    // Mounted with hidepid, /proc shows only this user's processes.
    if files.is_live() && files.bytes("/proc/1/comm", 64).known().is_none() {
        return Fact::Unknown(Unknown::NeedsRoot { what: "other users' processes".to_owned() });
    }
    let any = |paths: &[&str]| paths.iter().any(|path| files.exists(path));
    let runs = |names: &[&str]| {
        let ids = names.iter().flat_map(|name| ids(&processes, name));
        ids.into_iter().any(|id| may_set_the_clock(files, *id))
    };
    let mut text = String::new();
    let mut put = |kind: TimeKeeperKind, installed: bool, running: bool| {
        if installed || running {
            text.push_str(kind.name());
            text.push_str(if installed { " installed" } else { "" });
            text.push_str(if running { " running\n" } else { "\n" });
        }
    };
    for (kind, files, names) in SIGNS {
        put(*kind, any(files), runs(names));
    }
    let (openntpd, ntpd_runs) = (any(OPENNTPD), runs(&["ntpd"]));
    put(Openntpd, openntpd, openntpd && ntpd_runs);
    put(Ntpd, !openntpd && any(NTPD), !openntpd && ntpd_runs);
    let hv_utils = files.exists(HV_UTILS);
    put(HypervUtils, hv_utils, hv_utils);
    let keeps = |id: &u32| keeps_the_clock(files, *id) && may_set_the_clock(files, *id);
    let ours = [PARACHRON, PARACHROND].map(|name| ids(&processes, name));
    put(ParachronKeep, false, ours.into_iter().flatten().any(keeps));
    Fact::Known(text)
}

fn ids<'p>(processes: &'p BTreeMap<String, Vec<u32>>, name: &str) -> &'p [u32] {
    processes.get(name).map_or(&[], Vec::as_slice)
}

/// Whether it has the right to: anybody can give a process a daemon's name, and
/// in a container a daemon runs without it. Where that is not shown, as in a
/// tree made by hand, the name counts.
fn may_set_the_clock(files: &Files, process: u32) -> bool {
    let Fact::Known(status) = files.bytes(&format!("/proc/{process}/status"), STATUS_BYTES) else {
        return !files.is_live();
    };
    let status = String::from_utf8_lossy(&status);
    has_capability(&status).unwrap_or(true) && !is_in_user_namespace(files, process)
}

/// Whether it is in a user namespace of its own, where anybody has all
/// capabilities (`unshare --user`) and none reaches the clock. Only root can
/// map all users into one, as the first has them (user_namespaces(7)).
fn is_in_user_namespace(files: &Files, process: u32) -> bool {
    let map = files.bytes(&format!("/proc/{process}/uid_map"), STATUS_BYTES);
    let map = map.known().map(|map| String::from_utf8_lossy(map).into_owned());
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
    is_keep && !words.any(|word| word == b"--dry-run" || word.starts_with(b"--chrony"))
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
