//! Why the daemon does not start, for people: cause and remedy.

use daemon::DaemonError;
use facts::steering::TimeKeeperKind;
use keeper::event::NotUsed;
use rustix::io::Errno;
use sources::host::Channel;

use crate::error::CliError;
use crate::phc_advice::unknown_scale;

const MORE_FILES: &str = "a higher limit of open files (`ulimit -n`)";

pub(super) fn cli_error(error: DaemonError) -> CliError {
    let (cause, remedy) = match error {
        DaemonError::DuplicateSource(cause) => (cause, sources::unique::REMEDY.into()),
        DaemonError::UnknownScale { phc, why } => return unknown_scale(&phc, &why),
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
        DaemonError::OtherDaemon(kind) => (error.to_string(), stop_or_allow(kind)),
        DaemonError::OtherDaemonsUnknown(_) => {
            (error.to_string(), "--force if no time daemon runs, here or on a container's host".into())
        }
        DaemonError::AlreadyRunning { .. } => (
            error.to_string(),
            "systemctl stop parachron-keep, or stop the process that `lslocks` shows; --dry-run \
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
             (packaging/parachron-keep.service); --dry-run needs no permission"
                .into(),
        ),
        DaemonError::UnusableSource { ref path, ref why } => {
            (format!("--phc {}: {why}", path.display()), "another path, or no --phc".into())
        }
        DaemonError::UnusableChannel { ref channel, ref why } => {
            let (option, value) = option_of(channel);
            (format!("{option} {value}: {why}"), format!("another one, or no {option}"))
        }
        DaemonError::NoSource(not_used) => (no_source(&not_used), name_a_source()),
        DaemonError::NoReply => (
            error.to_string(),
            "another source (--ntp HOST), or a longer --timeout or --duration".into(),
        ),
        DaemonError::Wait(ref why) if Errno::from_io_error(why) != Some(Errno::MFILE) => {
            (error.to_string(), "start it again".into())
        }
        // An open socket is all that the others lack.
        other => (other.to_string(), MORE_FILES.into()),
    };
    CliError::Failed { cause, remedy }
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
