//! Which programs that set the clock are installed, and which run.

use crate::tree::Files;
use facts::steering::TimeKeeperKind::{self, *};
use facts::{Fact, Unknown};

/// A time keeper is installed if any of these files exists, and runs if a
/// process has any of these names, of which the kernel keeps 15 characters.
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

/// The lines of [`facts::steering::parse_keepers`].
pub(crate) fn find(files: &Files) -> Fact<String> {
    let processes = match files.process_names() {
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
    let mut text = String::new();
    let mut put = |kind: TimeKeeperKind, installed: bool, running: bool| {
        if installed || running {
            text.push_str(kind.name());
            text.push_str(if installed { " installed" } else { "" });
            text.push_str(if running { " running\n" } else { "\n" });
        }
    };
    for (kind, files, names) in SIGNS {
        put(*kind, any(files), names.iter().any(|name| processes.contains(*name)));
    }
    let (openntpd, ntpd_runs) = (any(OPENNTPD), processes.contains("ntpd"));
    put(Openntpd, openntpd, openntpd && ntpd_runs);
    put(Ntpd, !openntpd && any(NTPD), !openntpd && ntpd_runs);
    let hv_utils = files.exists(HV_UTILS);
    put(HypervUtils, hv_utils, hv_utils);
    Fact::Known(text)
}

/// In its own namespace, a container sees none of the host's daemons
/// (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
fn is_first_pid_namespace() -> bool {
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(link) => link.as_os_str() == "pid:[4026531836]",
        Err(_) => true,
    }
}
