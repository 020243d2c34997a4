//! Why the daemon does not start, for people: cause and remedy. Remedies name
//! the options of `parachron keep`; [`in_file`] makes keys of the configuration
//! of them.

pub mod phc;

use facts::steering::TimeKeeperKind;
use keeper::event::NotUsed;
use rustix::io::Errno;

use crate::configuration;
use crate::error::DaemonError;

const MORE_FILES: &str = "a higher limit of open files (`ulimit -n`)";

/// Names of options as the configuration file has them: `--ntp HOST` is `ntp
/// HOST` there.
pub fn in_file(text: &str) -> String {
    let mut text = text.to_owned();
    for key in configuration::keys().filter(|key| *key != "dry-run") {
        text = text.replace(&format!("--{key}"), key);
    }
    text
}

/// The cause, and what to do about it.
pub fn of(error: &DaemonError) -> (String, String) {
    match error {
        DaemonError::DuplicateSource(cause) => (cause.clone(), sources::unique::REMEDY.into()),
        DaemonError::UnknownScale { phc, why } => phc::unknown_scale(phc, why),
        DaemonError::MakestepMayGoBackward => (
            "--never-backward contradicts --chrony makestep: chronyd steps by its own \
             measurements, backward too"
                .into(),
            "only one of the two; with --chrony sock=PATH chronyd steps by `makestep` in chrony.conf".into(),
        ),
        DaemonError::ToleranceBeyondThreshold => {
            ("--tolerance is beyond --step-threshold".into(), in_order())
        }
        DaemonError::ThresholdBeyondMaxStep => {
            ("--step-threshold is beyond --max-step: no step is possible".into(), in_order())
        }
        DaemonError::OtherDaemon(kind) => (error.to_string(), stop_or_allow(*kind)),
        DaemonError::OtherDaemonsUnknown(_) => {
            (error.to_string(), "--force if no time daemon runs, here or on a container's host".into())
        }
        DaemonError::AlreadyRunning { .. } => (
            error.to_string(),
            "systemctl stop parachrond, or stop the process that `lslocks` shows; --dry-run \
             may run at the same time"
                .into(),
        ),
        DaemonError::Lock { .. } => (
            error.to_string(),
            "as root, or as a service with RuntimeDirectory=parachron; or --force".into(),
        ),
        DaemonError::NotPermitted(_) => (
            error.to_string(),
            "as root, or as a service with AmbientCapabilities=CAP_SYS_TIME \
             (packaging/parachrond.service); --dry-run needs no permission"
                .into(),
        ),
        DaemonError::UnusableSource { path, is_host_socket, why } => {
            let option = if *is_host_socket { "--host-socket" } else { "--phc" };
            (format!("{option} {}: {why}", path.display()), format!("another path, or no {option}"))
        }
        DaemonError::NoSource(not_used) => (no_source(not_used), name_a_source()),
        DaemonError::NoReply => (
            error.to_string(),
            "another source (--ntp HOST), or a longer --timeout or --duration".into(),
        ),
        DaemonError::Wait(why) if Errno::from_io_error(why) != Some(Errno::MFILE) => {
            (error.to_string(), "start it again".into())
        }
        // An open socket is all that the others lack.
        other => (other.to_string(), MORE_FILES.into()),
    }
}

fn in_order() -> String {
    "--tolerance below --step-threshold below --max-step".into()
}

fn stop_or_allow(kind: TimeKeeperKind) -> String {
    let name = kind.name();
    match kind {
        TimeKeeperKind::Chrony => {
            "--chrony makestep or --chrony sock=PATH to work with it, or stop it: systemctl \
             disable --now chrony (or chronyd); with --dry-run, --allow-daemon chrony"
                .to_owned()
        }
        _ => format!("stop {name}, or --allow-daemon {name} if it does not set the clock"),
    }
}

fn no_source(not_used: &[NotUsed]) -> String {
    let whys: Vec<String> =
        not_used.iter().map(|one| format!("{}: {}", one.source, one.why)).collect();
    let whys = if whys.is_empty() { "none was probed for".to_owned() } else { whys.join("; ") };
    format!("no time source ({whys})")
}

fn name_a_source() -> String {
    "--ntp HOST; or VMClock or ptp_kvm for the guest (modprobe ptp_kvm)".into()
}
