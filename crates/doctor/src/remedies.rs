//! What to do, in commands for this system.

mod boot;
mod chrony;
mod keep;

use facts::hardware::{Phc, PhcDriver, PhcTime};
use facts::steering::TimeKeeperKind;

use crate::case::Case;
use crate::finding::Remedy;

pub(crate) use boot::{add_parameter, remove_parameter};
pub(crate) use chrony::{chrony_edit, chrony_line, follow_host, makestep, tai_table};
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

/// A clock that stood still while the machine did not run.
pub(crate) fn set_after_pause() -> Remedy {
    Remedy::command("Set the clock after each pause, restore or resume.", "sudo chronyc makestep")
        .changes("the time of day, at once")
}

/// Run a daemon that disciplines the clock.
pub(crate) fn run_time_daemon(case: &Case<'_>) -> Vec<Remedy> {
    let changes = "the daemon disciplines the clock from now on, and after a reboot";
    if case.in_container() {
        return vec![Remedy::advice(
            "Run a time daemon (chrony) on the machine itself: containers share its clock.",
        )];
    }
    let installed = |kind: TimeKeeperKind| {
        case.keepers()
            .is_ok_and(|all| all.iter().any(|keeper| keeper.kind == kind && keeper.installed))
    };
    let start = |what: &str, unit: &str| {
        let command = match family(case) {
            Some(Family::Alpine) => "sudo rc-service {} start",
            _ => "sudo systemctl enable --now {}",
        };
        let start = Remedy::quoting(format!("Start {what}, which is installed."), command, &[unit])
            .changes(changes);
        let Some(condition) = case.unmet_condition(unit) else { return vec![start] };
        let name = condition.split('=').next().unwrap_or_default();
        let edit = Remedy::quoting(
            format!(
                "Remove the condition that keeps it from starting, {condition}: write the lines \
                 [Unit] and {name}= in the editor that this opens."
            ),
            "sudo systemctl edit {}",
            &[unit],
        );
        vec![edit.changes("a drop-in of the unit, which an update keeps"), start.then()]
    };
    let family = family(case);
    if installed(TimeKeeperKind::Chrony) {
        let unit = if family == Some(Family::Debian) { "chrony" } else { "chronyd" };
        return start("chrony", unit);
    }
    if installed(TimeKeeperKind::SystemdTimesyncd) {
        return start("systemd-timesyncd", "systemd-timesyncd");
    }
    if installed(TimeKeeperKind::Ntpd) {
        let conf =
            if ntpd_unit(case) == "ntpsec" { "/etc/ntpsec/ntp.conf" } else { "/etc/ntp.conf" };
        // ntpd(8): -g allows one offset above 1000 s; after it ntpd ends.
        let allow = Remedy::quoting(
            "Let ntpd accept any offset, if this machine is ever paused (`tinker panic 0`; option -g \
             allows one large offset at the start).",
            "echo {} | sudo tee -a {}",
            &["tinker panic 0", conf],
        )
        .changes("ntpd's configuration");
        let started = start("ntpd", ntpd_unit(case)).into_iter().map(Remedy::then);
        return std::iter::once(allow).chain(started).collect();
    }
    let what = "Install chrony; the package starts the daemon.";
    let install = match family {
        Some(Family::Debian) => Remedy::command(what, "sudo apt install chrony"),
        Some(Family::RedHat) => Remedy::command(
            "Install and start chrony.",
            "sudo dnf install chrony && sudo systemctl enable --now chronyd",
        ),
        Some(Family::Suse) => Remedy::command(
            "Install and start chrony.",
            "sudo zypper install chrony && sudo systemctl enable --now chronyd",
        ),
        _ => Remedy::advice("Install chrony and enable it at boot."),
    };
    vec![install.changes(changes)]
}

/// The name of ntpd's unit: Debian has had ntpsec in its place since 12.
pub(crate) fn ntpd_unit(case: &Case<'_>) -> &'static str {
    match family(case) {
        Some(Family::RedHat | Family::Suse | Family::Arch) => "ntpd",
        Some(Family::Debian) => {
            let name = case.distribution().unwrap_or_default();
            if name.contains("Debian") && !["10", "11"].iter().any(|old| name.contains(old)) {
                "ntpsec"
            } else {
                "ntp"
            }
        }
        Some(Family::Alpine) => "ntpd",
        None => "ntp",
    }
}

/// Give ntpd a table of leap seconds, from which it sets the TAI offset.
pub(crate) fn ntpd_leapfile(case: &Case<'_>) -> Remedy {
    let unit = ntpd_unit(case);
    let conf = if unit == "ntpsec" { "/etc/ntpsec/ntp.conf" } else { "/etc/ntp.conf" };
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
