//! What to do, in commands for this system.

mod boot;
mod chrony;
mod keep;

use facts::hardware::{Phc, PhcDriver, PhcTime};
use facts::steering::TimeKeeperKind;

use crate::case::Case;
use crate::finding::Remedy;

pub(crate) use boot::{add_parameter, remove_parameter};
pub(crate) use chrony::{
    chrony_check, chrony_edit, chrony_line, follow_host, makestep, start_following_host, tai_table,
};
pub(crate) use keep::keep;

/// Switch the clock source now.
pub(crate) fn switch_to(case: &Case<'_>, source: &str) -> Remedy {
    Remedy::quoting(
        format!("Switch to {source} now."),
        "echo {} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        &[source],
    )
    .changes(if case.in_container() {
        "the clock of all programs, until the next boot; run the command on the machine, not in \
         this container"
    } else {
        "the clock of all programs, at once and until the next boot"
    })
}

/// Daemons that a package brings, the best first, with their units: on Debian and its kin, and
/// elsewhere.
const UNITS: [(TimeKeeperKind, &str, &str); 10] = [
    (TimeKeeperKind::Chrony, "chrony", "chronyd"),
    (TimeKeeperKind::SystemdTimesyncd, "systemd-timesyncd", "systemd-timesyncd"),
    (TimeKeeperKind::Ntpd, "ntp", "ntpd"),
    (TimeKeeperKind::NtpdRs, "ntpd-rs", "ntpd-rs"),
    (TimeKeeperKind::Openntpd, "openntpd", "openntpd"),
    (TimeKeeperKind::Clockbound, "clockbound", "clockbound"),
    (TimeKeeperKind::Connman, "connman", "connman"),
    (TimeKeeperKind::Htpdate, "htpdate", "htpdate"),
    (TimeKeeperKind::LinuxPtp, "phc2sys", "phc2sys"),
    (TimeKeeperKind::ParachronKeep, "parachrond", "parachrond"),
];

/// The unit of a daemon: the one that it runs as, or that its package brings.
pub(crate) fn unit<'a>(case: &Case<'a>, kind: TimeKeeperKind) -> &'a str {
    let all = case.keepers().unwrap_or_default();
    if let Some(unit) =
        all.iter().filter(|one| one.kind == kind).find_map(|one| one.unit.as_deref())
    {
        return unit.trim_end_matches(".service");
    }
    let is_debian = family(case) == Some(Family::Debian);
    let name = case.distribution().unwrap_or_default();
    // Debian has had ntpsec in the place of ntp since 12.
    let is_old = ["10", "11"].iter().any(|old| name.contains(old)) || !name.contains("Debian");
    let is_known = family(case).is_some();
    UNITS.iter().find(|(of, ..)| *of == kind).map_or("", |(_, debian, others)| match kind {
        TimeKeeperKind::Ntpd if is_debian && !is_old => "ntpsec",
        TimeKeeperKind::Ntpd if !is_known => debian,
        _ if is_debian => debian,
        _ => others,
    })
}

/// Start a service now and at boot, or stop it for good.
pub(crate) fn service(case: &Case<'_>, what: String, starts: bool, unit: &str) -> Remedy {
    let command = match (family(case) == Some(Family::Alpine), starts) {
        (false, true) => "sudo systemctl enable --now {}",
        (false, false) => "sudo systemctl disable --now {}",
        (true, true) => "sudo rc-service {} start",
        (true, false) => "sudo rc-service {} stop",
    };
    Remedy::quoting(what, command, &[unit])
}

/// Run a daemon that disciplines the clock.
pub(crate) fn run_time_daemon(case: &Case<'_>) -> Vec<Remedy> {
    if case.in_container() {
        return vec![Remedy::advice(
            "Run a time daemon (chrony) on the machine itself: containers share its clock.",
        )];
    }
    let installed = |kind| {
        let all = case.keepers().unwrap_or_default();
        all.iter().any(|keeper| keeper.kind == kind && keeper.installed)
    };
    let Some((kind, ..)) = UNITS.iter().find(|(kind, ..)| kind.disciplines() && installed(*kind))
    else {
        return vec![install_chrony(case)];
    };
    let mut steps = start(case, *kind);
    if *kind == TimeKeeperKind::Ntpd {
        // ntpd(8): -g allows one offset above 1000 s; after it ntpd ends.
        let allow = Remedy::quoting(
            "Let ntpd accept any offset, if this machine is ever paused (`tinker panic 0`; option -g \
             allows one large offset at the start).",
            "echo {} | sudo tee -a {}",
            &["tinker panic 0", ntpd_conf(case)],
        );
        steps.insert(0, allow.changes("ntpd's configuration"));
        steps = in_order(steps);
    }
    steps
}

/// Each after the one before it.
pub(crate) fn in_order(steps: Vec<Remedy>) -> Vec<Remedy> {
    let number = |(at, step): (usize, Remedy)| Remedy { follows: at > 0, ..step };
    steps.into_iter().enumerate().map(number).collect()
}

const FROM_NOW_ON: &str = "the daemon disciplines the clock from now on, and after a reboot";

fn start(case: &Case<'_>, kind: TimeKeeperKind) -> Vec<Remedy> {
    let unit = unit(case, kind);
    let what = format!("Start {}, which is installed.", kind.program());
    if case.is_enabled(unit) && case.unmet_condition(unit).is_none() {
        let why = format!("Read why {}, which is enabled, does not run.", kind.program());
        let read = Remedy::quoting(why, "journalctl --boot --lines 20 --unit {}", &[unit]);
        let restart = service(case, what, true, unit).changes(FROM_NOW_ON);
        return vec![read.changes(READ_ONLY), restart.then()];
    }
    let start = service(case, what, true, unit).changes(FROM_NOW_ON);
    let Some(condition) = case.unmet_condition(unit) else {
        if !case.has_container_condition(unit) {
            return vec![start];
        }
        let check = Remedy::quoting(
            "Check whether systemd skips its start: the unit has ConditionVirtualization=!container, \
             and systemd takes some boards for a container. Then a start does not help.",
            "systemd-detect-virt; systemctl status {}",
            &[unit],
        );
        return vec![check.changes(READ_ONLY), start.then()];
    };
    if condition == "masked" {
        let unmask = Remedy::quoting("Unmask its unit.", "sudo systemctl unmask {}", &[unit]);
        return unmask.and(start);
    }
    let name = condition.split('=').next().unwrap_or_default();
    let edit = Remedy::quoting(
        format!(
            "Remove the condition {condition}, which keeps the daemon from starting: write the lines \
             [Unit] and {name}= in the editor that this command opens."
        ),
        "sudo systemctl edit {}",
        &[unit],
    );
    vec![edit.changes("a drop-in of the unit, which an update keeps"), start.then()]
}

fn install_chrony(case: &Case<'_>) -> Remedy {
    let both = "Install and start chrony.";
    let install = match family(case) {
        Some(Family::Debian) => Remedy::command(
            "Install chrony; the package starts the daemon.",
            "sudo apt install chrony",
        ),
        Some(Family::RedHat) => {
            Remedy::command(both, "sudo dnf install chrony && sudo systemctl enable --now chronyd")
        }
        Some(Family::Suse) => Remedy::command(
            both,
            "sudo zypper install chrony && sudo systemctl enable --now chronyd",
        ),
        _ => Remedy::advice("Install chrony and enable it at boot."),
    };
    install.changes(FROM_NOW_ON)
}

fn ntpd_conf(case: &Case<'_>) -> &'static str {
    match unit(case, TimeKeeperKind::Ntpd) {
        "ntpsec" => "/etc/ntpsec/ntp.conf",
        _ => "/etc/ntp.conf",
    }
}

/// Give ntpd a table of leap seconds, from which it sets the TAI offset.
pub(crate) fn ntpd_leapfile(case: &Case<'_>) -> Remedy {
    let (unit, conf) = (unit(case, TimeKeeperKind::Ntpd), ntpd_conf(case));
    let line = "leapfile /usr/share/zoneinfo/leap-seconds.list";
    Remedy::quoting(
        "Point ntpd to the leap-second table of the package tzdata.",
        "echo {} | sudo tee -a {} && sudo systemctl restart {}",
        &[line, conf, unit],
    )
    .changes("ntpd's configuration; do not use it where the servers smear leap seconds")
}

/// Where Hyper-V's hv_utils can step the clock: to take its time synchronisation
/// away from the kernel, as some databases' guides advise. With hv_utils the
/// clock goes that chronyd may follow.
pub(crate) fn unbind_hyperv_sync(case: &Case<'_>) -> Option<Remedy> {
    let followed =
        case.chrony_config().filter(|_| case.phc_followed().is_some()).is_some_and(|config| {
            let mut phcs = config.phcs().filter_map(|line| case.phc_named(line));
            phcs.any(|phc| phc.driver() == PhcDriver::HyperV)
        });
    if followed || case.running(&[TimeKeeperKind::HypervUtils]).is_empty() {
        return None;
    }
    let remedy = Remedy::command(
        "Stop Hyper-V's time synchronisation if hv_utils steps the clock (CockroachDB's guide for \
         Azure recommends it). This also removes /dev/ptp_hyperv, so give chrony another source \
         first.",
        "grep -l 9527e630 /sys/bus/vmbus/drivers/hv_utils/*/class_id | xargs -n 1 dirname | \
         xargs -n 1 basename | sudo tee /sys/bus/vmbus/drivers/hv_utils/unbind",
    );
    Some(remedy.changes("the host no longer sets this clock, until the next boot"))
}

/// Where the host shows its clock: a database that can read it in the system clock's
/// place (cockroachdb/docs#10399, for live migrations under VMware). One of TAI would
/// put it 37 s ahead.
pub(crate) fn read_by_cockroachdb(case: &Case<'_>) -> Option<Remedy> {
    let is_utc = |phc: &&Phc| {
        !matches!(case.phc_time(phc), PhcTime::Unknown | PhcTime::Monotonic | PhcTime::Tai)
    };
    let phc = case.host_phcs().find(is_utc)?;
    Some(Remedy::advice(format!(
        "Let CockroachDB read the host's clock directly: start all its nodes with \
         --clock-device={}.",
        phc.path()
    )))
}

/// Ask a third clock, where two contradict each other.
pub(crate) fn compare() -> Remedy {
    Remedy::command(
        "Compare the clock with an independent one.",
        "curl --silent --head https://www.debian.org | grep -i ^date; date -u",
    )
    .changes(READ_ONLY)
}

/// Write the RTC from the system clock, where a second witness confirms that one: from a wrong
/// clock, the last right one would be lost.
pub(crate) fn with_witness(case: &Case<'_>, write: Remedy) -> Remedy {
    if case.is_confirmed() { write } else { compare() }
}

/// What a command that only reads changes.
pub(crate) const READ_ONLY: &str = "nothing";

/// Distributions by boot loader and package manager.
#[derive(PartialEq)]
enum Family {
    Debian,
    RedHat,
    Suse,
    Arch,
    Alpine,
}

fn family(case: &Case<'_>) -> Option<Family> {
    let name = case.distribution().ok()?.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|part| name.contains(part));
    if is(&["debian", "ubuntu", "mint", "kali", "pop!_os", "raspbian", "proxmox"]) {
        Some(Family::Debian)
    } else if is(&[
        "red hat",
        "rhel",
        "centos",
        "rocky",
        "alma",
        "fedora",
        "oracle linux",
        "amazon linux",
        "scientific linux",
    ]) {
        Some(Family::RedHat)
    } else if is(&["suse"]) {
        Some(Family::Suse)
    } else if is(&["arch linux", "manjaro"]) {
        Some(Family::Arch)
    } else if is(&["alpine"]) {
        Some(Family::Alpine)
    } else {
        None
    }
}
