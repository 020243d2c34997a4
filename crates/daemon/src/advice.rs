//! Why the daemon does not start, for people: cause and remedy. Remedies name
//! the options of `parachron keep`; [`in_file`] makes keys of the configuration
//! of them.

pub mod phc;

use std::io::ErrorKind;

use keeper::event::NotUsed;
use rustix::io::Errno;
use sources::host::Channel;

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
        DaemonError::OtherDaemonsUnknown(_) => {
            (error.to_string(), "--force if no time daemon runs, here or on a container's host".into())
        }
        DaemonError::AlreadyRunning { .. } => (
            error.to_string(),
            "systemctl stop parachrond, or stop the process that `lslocks` shows; --dry-run \
             may run at the same time"
                .into(),
        ),
        DaemonError::Lock { error: why, .. } if why.kind() == ErrorKind::ReadOnlyFilesystem => (
            error.to_string(),
            "mount -o remount,rw /run; in a service RuntimeDirectory=parachron".into(),
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
        DaemonError::UnusableSource { path, why } => {
            (format!("--phc {}: {why}", path.display()), "another path, or no --phc".into())
        }
        DaemonError::UnusableChannel { channel, why } => {
            let (option, value) = option_of(channel);
            (format!("{option} {value}: {why}"), format!("another one, or no {option}"))
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

/// The option that names a channel to the host, and its value.
fn option_of(channel: &Channel) -> (&'static str, String) {
    match channel {
        Channel::Vsock(port) => ("--host-vsock", port.to_string()),
        Channel::Port(path) => ("--host-port", path.display().to_string()),
        Channel::Socket(path) => ("--host-socket", path.display().to_string()),
        Channel::None => ("--host-socket", String::new()),
    }
}

fn in_order() -> String {
    "--tolerance below --step-threshold below --max-step".into()
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
