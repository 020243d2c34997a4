//! Why the daemon does not start, for people: cause and remedy. Remedies name
//! the options of `parachron keep`; [`in_file`] makes keys of the configuration
//! of them.

pub mod phc;

use std::io::ErrorKind;

use keeper::event::NotUsed;
use linux::system_clock::NoPermission;
use rustix::io::Errno;

use crate::configuration;
use crate::error::DaemonError;

const MORE_FILES: &str = "raise the open-file limit (`ulimit -n 4096`)";

/// Options as the configuration file has them: `--phc` is `phc` there.
pub fn in_file(text: &str) -> String {
    let mut text = text.replace("--ntp HOST", "ntp = [\"HOST\"] in /etc/parachron/parachrond.toml");
    for key in configuration::keys().filter(|key| *key != "dry-run") {
        text = text.replace(&format!("--{key}"), key);
    }
    text
}

/// The cause, and what to do about it.
pub fn advise(error: &DaemonError) -> (String, String) {
    match error {
        DaemonError::Contradiction { remedy, .. } => (error.to_string(), remedy.clone()),
        DaemonError::OtherDaemonsUnknown(_) => (
            error.to_string(),
            "in a container, run parachrond on the machine: all its containers share that clock; \
                 elsewhere, use --force if no other time daemon runs"
                .into(),
        ),
        DaemonError::AlreadyRunning => (
            error.to_string(),
            "run `systemctl stop parachrond`, or stop the process that `lslocks` shows; --dry-run \
             can run beside it"
                .into(),
        ),
        DaemonError::Lock(why) if why.kind() == ErrorKind::ReadOnlyFilesystem => (
            error.to_string(),
            "run `mount -o remount,rw /run`, or set RuntimeDirectory=parachron in the service"
                .into(),
        ),
        DaemonError::Lock(_) => (
            error.to_string(),
            "run it as root, or as a service with RuntimeDirectory=parachron, or use --force"
                .into(),
        ),
        DaemonError::NotPermitted(why) => (error.to_string(), permission(why).into()),
        DaemonError::Gate(_) => (
            error.to_string(),
            "name another control group in gate: put the workload in a slice of its own".into(),
        ),
        DaemonError::Unusable { option, .. } => {
            (error.to_string(), format!("use another one, or remove {option}"))
        }
        DaemonError::NoSource(not_used) => (no_source(not_used), name_a_source()),
        DaemonError::NoReply => (
            error.to_string(),
            "check address and port of each source that the log names as unreachable; add another \
             (--ntp HOST)"
                .into(),
        ),
        DaemonError::Wait(why) if Errno::from_io_error(why) != Some(Errno::MFILE) => {
            (error.to_string(), "restart it".into())
        }
        // An open socket is all that the others lack.
        other => (other.to_string(), MORE_FILES.into()),
    }
}

fn permission(why: &NoPermission) -> &'static str {
    match why {
        NoPermission::Sandbox(_) => {
            "allow adjtimex: remove ProtectClock= from the unit and `~@clock` from its \
             SystemCallFilter=; in a container, run parachrond on the machine, whose clock it is"
        }
        _ => {
            "run it as root, or as a service with AmbientCapabilities=CAP_SYS_TIME \
             (packaging/parachrond.service); in a container, run it on the machine, whose clock it \
             is; --dry-run needs no permission"
        }
    }
}

fn no_source(not_used: &[NotUsed]) -> String {
    let whys: Vec<String> =
        not_used.iter().map(|one| format!("{}: {}", one.source, one.why)).collect();
    let whys = if whys.is_empty() { "none was looked for".to_owned() } else { whys.join("; ") };
    format!("no time source ({whys})")
}

fn name_a_source() -> String {
    "add an NTP server (--ntp HOST), or give the guest VMClock or ptp_kvm (`modprobe ptp_kvm`)"
        .into()
}
