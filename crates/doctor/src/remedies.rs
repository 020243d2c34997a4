//! What to do, in commands for this system.

use facts::steering::TimeKeeperKind;

use crate::case::Case;
use crate::finding::Remedy;

/// Switch the clock source now.
pub(crate) fn switch_to(case: &Case<'_>, source: &str) -> Remedy {
    Remedy::command(
        format!("Switch to {source} now."),
        format!(
            "echo {source} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    )
    .changes(if case.in_container() {
        "all programs' clock, until the next boot; run it on the machine, not in this container"
    } else {
        "all programs' clock, at once and until the next boot"
    })
}

/// Add a kernel parameter.
pub(crate) fn add_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    change_parameter(case, parameter, ["Boot with", "--args", "Add", "to"])
}

/// Remove a kernel parameter.
pub(crate) fn remove_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    change_parameter(case, parameter, ["Boot without", "--remove-args", "Remove", "from"])
}

fn change_parameter(
    case: &Case<'_>,
    parameter: &str,
    [boot, option, change, to]: [&str; 4],
) -> Remedy {
    let at = |place: &str| format!("{change} {parameter} {to} {place}");
    match boot_loader(case) {
        BootLoader::Grubby => Remedy::command(
            format!("{boot} {parameter}."),
            format!("sudo grubby --update-kernel=ALL {option}=\"{parameter}\""),
        ),
        BootLoader::Grub(update) => {
            Remedy::command(at("GRUB_CMDLINE_LINUX in /etc/default/grub, then:"), update)
        }
        BootLoader::Vmm(place) => Remedy::advice(at(place) + "."),
        BootLoader::Unknown => Remedy::advice(at("the kernel's command line.")),
    }
    .changes("from the next boot on")
}

/// Run a daemon that disciplines the clock.
pub(crate) fn run_time_daemon(case: &Case<'_>) -> Remedy {
    let changes = "the daemon disciplines the clock from now on, after a reboot too";
    if case.in_container() {
        return Remedy::advice(
            "Run a time daemon (chrony) on the machine itself: containers share its clock.",
        );
    }
    let installed = |kind: TimeKeeperKind| {
        case.facts
            .steering
            .keepers
            .is_known_and(|all| all.iter().any(|one| one.kind == kind && one.installed))
    };
    let start = |what: &str, unit: &str| {
        Remedy::command(
            format!("Start {what}; it is installed."),
            format!("sudo systemctl enable --now {unit}"),
        )
        .changes(changes)
    };
    let family = family(case);
    if installed(TimeKeeperKind::Chrony) {
        let unit = if family == Some(Family::Debian) { "chrony" } else { "chronyd" };
        return start("chrony", unit);
    }
    if installed(TimeKeeperKind::SystemdTimesyncd) {
        return start("systemd-timesyncd", "systemd-timesyncd");
    }
    let what = "Install chrony; the package starts it.";
    match family {
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
    }
    .changes(changes)
}

/// Add a line to chrony's configuration, and restart chrony.
pub(crate) fn chrony_line(case: &Case<'_>, what: &str, line: &str) -> Remedy {
    let (conf, unit) = match family(case) {
        Some(Family::Debian) => ("/etc/chrony/chrony.conf", "chrony"),
        _ => ("/etc/chrony.conf", "chronyd"),
    };
    Remedy::command(
        what,
        format!("echo '{line}' | sudo tee -a {conf} && sudo systemctl restart {unit}"),
    )
}

/// Make chrony follow the host's clock by its PTP device.
pub(crate) fn follow_host(case: &Case<'_>, device: &str) -> Remedy {
    chrony_line(
        case,
        "Make chrony follow the host's clock.",
        &format!("refclock PHC {device} poll 2"),
    )
    .changes("chrony's configuration; it needs no network for this source")
}

/// Debian's and Red Hat's chrony.conf allow steps in the first three updates
/// only, long before a pause.
pub(crate) fn makestep(case: &Case<'_>) -> Remedy {
    chrony_line(case, "Allow chrony to step the clock at any time.", "makestep 1 -1")
        .changes("chrony's configuration: it steps offsets above 1 s when they appear")
}

/// Run `parachron keep` to correct the clock after each pause and restore.
pub(crate) fn keep(case: &Case<'_>) -> Remedy {
    let has_chrony = !case.running(&[TimeKeeperKind::Chrony]).is_empty();
    let kept = "Or correct the clock within a second of each pause and restore.";
    let (what, command) = if has_chrony {
        (
            "Or make chrony step after each pause and restore.",
            "sudo parachron keep --chrony makestep",
        )
    } else if case.host_phcs().next().is_some() {
        (kept, "sudo parachron keep")
    } else {
        (kept, "sudo parachron keep --ntp ADDRESS")
    };
    Remedy::command(what, command)
        .changes("the time of day, while it runs; docs/guide/keep.md has a systemd unit")
}

/// The name of ntpd's unit.
pub(crate) fn ntpd_unit(case: &Case<'_>) -> &'static str {
    if family(case) == Some(Family::RedHat) { "ntpd" } else { "ntp" }
}

/// What a command that only reads changes.
pub(crate) const READ_ONLY: &str = "nothing";

/// How the kernel's command line is changed here.
enum BootLoader {
    Grubby,
    Grub(&'static str),
    Vmm(&'static str),
    Unknown,
}

fn boot_loader(case: &Case<'_>) -> BootLoader {
    match (case.snapshots(), family(case)) {
        // A microVM boots the kernel its VMM loads, without a boot loader.
        (Some("Firecracker"), _) => {
            BootLoader::Vmm("boot_args, where Firecracker's boot source is set")
        }
        (_, Some(Family::RedHat)) => BootLoader::Grubby,
        (_, Some(Family::Debian)) => BootLoader::Grub("sudo update-grub"),
        (_, Some(Family::Suse)) => BootLoader::Grub("sudo grub2-mkconfig -o /boot/grub2/grub.cfg"),
        (_, Some(Family::Arch)) => BootLoader::Grub("sudo grub-mkconfig -o /boot/grub/grub.cfg"),
        (_, None) => BootLoader::Unknown,
    }
}

/// Distributions by boot loader and package manager.
#[derive(PartialEq)]
enum Family {
    Debian,
    RedHat,
    Suse,
    Arch,
}

fn family(case: &Case<'_>) -> Option<Family> {
    let name = case.facts.system.distribution.known()?.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|one| name.contains(one));
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
    } else {
        None
    }
}
