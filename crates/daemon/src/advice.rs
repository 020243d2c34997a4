//! Why the daemon does not start, for people: cause and remedy. Remedies name
//! the options of `parachron keep`; [`in_file`] makes keys of the configuration
//! of them.

use std::io::ErrorKind;

use facts::Fact;
use instruments::figures::time;
use keeper::event::NotUsed;
use linux::system_clock::NoPermission;
use rustix::io::Errno;
use sources::phc::{Apparent, PhcScale, UnknownScale, kernels_tai_s};
use sources::{PhcSource, SourceError};

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

// What to do about a PTP hardware clock of which it is not known what it counts.

/// Cause and remedy where it is not known what `phc` counts, and so the time of
/// day cannot be taken from it.
pub fn unknown_scale(phc: &PhcSource, why: &UnknownScale) -> (String, String) {
    (
        cause(phc.device(), phc.clock_name(), why, phc.apparent()),
        remedy(phc.device(), why, &kernels_tai_s()),
    )
}

/// Why a source gives no time, with the remedy where it is a device of unknown
/// scale, for the log of whichever program runs.
pub(crate) fn with_remedy(why: &SourceError) -> String {
    match why {
        SourceError::Scale { device, why: unknown, .. } => {
            format!("{why}; try: {}", in_file(&remedy(device, unknown, &kernels_tai_s())))
        }
        _ => why.to_string(),
    }
}

fn cause(
    device: &str,
    clock_name: &str,
    why: &UnknownScale,
    apparent: Result<(i64, Apparent), SourceError>,
) -> String {
    let called = if clock_name.is_empty() { String::new() } else { format!(" ({clock_name:?})") };
    let appears =
        apparent.map_or(String::new(), |(ahead_ns, apparent)| appears(ahead_ns, apparent));
    format!("cannot take the time of day from {device}{called}: {why}{appears}")
}

fn remedy(device: &str, why: &UnknownScale, tai_s: &Fact<i32>) -> String {
    match why {
        UnknownScale::NotNamed => format!(
            "use --phc {device}{} for a network card's clock that ptp4l sets (it counts TAI), \
             or --phc {device},utc for one that counts UTC",
            PhcScale::tai(tai_s)
        ),
        UnknownScale::TaiNotSet => format!(
            "use --phc {device},tai=37 (TAI - UTC since 2017), or have chronyd set it in the \
             kernel with `leapsectz right/UTC`"
        ),
        UnknownScale::NoTimeOfDay => "use another clock of the host (`cat \
             /sys/class/ptp/*/clock_name`), or an NTP server (--ntp)"
            .into(),
        // Which kernels have which: docs/reference/keep.md.
        UnknownScale::AtNeither | UnknownScale::PageTellsNone(_) => format!(
            "add an NTP server (--ntp), run `chmod a+r /dev/vmclock0` where the page may not be read, \
             or state what the device counts: --phc {device},utc before Linux 7.0, --phc \
             {device},tai=37 from 7.0 on"
        ),
        UnknownScale::TaiUnknown(_) => format!("use --phc {device},tai=37 (TAI - UTC since 2017)"),
    }
}

/// What the device shows against this machine's clock, which need not be right.
fn appears(ahead_ns: i64, apparent: Apparent) -> String {
    let far = time(ahead_ns.unsigned_abs() as f64);
    match apparent {
        Apparent::Utc => format!("; it is within {far} of this clock, as is to be expected of UTC"),
        Apparent::Tai => format!("; it is {far} ahead of this clock, as TAI would be"),
        Apparent::LessThanUtc | Apparent::Neither => {
            let side = if ahead_ns < 0 { "behind" } else { "ahead of" };
            format!("; it is {far} {side} this clock")
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::Unknown;

    use super::*;

    #[test]
    fn a_card_of_unknown_scale_is_refused_with_what_it_appears_to_count() {
        let of = |ahead_ns| {
            let apparent = Ok((ahead_ns, Apparent::from_lead(ahead_ns, &Fact::Known(37))));
            cause("/dev/ptp1", "mlx5_ptp", &UnknownScale::NotNamed, apparent)
        };
        assert_eq!(
            of(37_000_002_000),
            "cannot take the time of day from /dev/ptp1 (\"mlx5_ptp\"): its name does not show \
             whether it counts UTC or TAI; it is 37.0 s ahead of this clock, as TAI would be"
        );
        let near = of(-2_000_000);
        assert!(
            near.contains("; it is within 2.00 ms of this clock, as is to be expected of UTC"),
            "{near}"
        );
        let far = of(-3_600_000_000_000);
        assert!(far.ends_with(" behind this clock"), "{far}");
        // One that cannot be compared either has no more to show.
        let error = SourceError::Before1970 { device: "/dev/ptp1".into() };
        let unread = cause("/dev/ptp1", "", &UnknownScale::NotNamed, Err(error));
        assert!(unread.ends_with("/dev/ptp1: its name does not show whether it counts UTC or TAI"));
    }

    #[test]
    fn the_remedy_does_not_lead_into_the_next_error() {
        let advised = |why, tai_s: i32| remedy("/dev/ptp1", &why, &Fact::Known(tai_s));
        let set = advised(UnknownScale::NotNamed, 37);
        assert!(set.starts_with("use --phc /dev/ptp1,tai for a network card's"), "{set}");
        assert!(set.contains("--phc /dev/ptp1,utc for one that counts UTC"), "{set}");
        let not_set = advised(UnknownScale::NotNamed, 0);
        assert!(not_set.starts_with("use --phc /dev/ptp1,tai=37 for a network"), "{not_set}");
        let not_set = advised(UnknownScale::TaiNotSet, 0);
        assert!(not_set.starts_with("use --phc /dev/ptp1,tai=37 "), "{not_set}");
        assert!(not_set.contains("leapsectz right/UTC"), "{not_set}");
    }

    #[test]
    fn a_kernel_that_cannot_be_read_is_not_one_that_was_not_set() {
        let of = |why| {
            let (device, clock_name) = ("/dev/ptp1".into(), "mlx5_ptp".into());
            with_remedy(&SourceError::Scale { device, clock_name, why })
        };
        let not_set = of(UnknownScale::TaiNotSet);
        assert!(not_set.contains("(adjtimex: tai 0); try: use phc /dev/ptp1,tai=37 "), "{not_set}");
        let unread = of(UnknownScale::TaiUnknown(Unknown::not_there("adjtimex")));
        assert!(unread.contains("kernel: not there: adjtimex; try: use phc /dev/ptp1,tai=37"));
        assert!(!unread.contains("has not been set"), "{unread}");
    }
}
