//! What to do, in the words and commands of the system at hand.

use facts::steering::TimeKeeperKind;

use crate::case::Case;
use crate::finding::Remedy;

/// Switch the clock source now.
pub(crate) fn switch_to(case: &Case<'_>, source: &str) -> Remedy {
    let until = "at once and for all programs, until the next boot";
    Remedy::command(
        format!("Switch to {source} now."),
        format!(
            "echo {source} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    )
    .changes(match case.in_container() {
        true => format!("{until}; done on the machine itself, not in this container"),
        false => until.to_owned(),
    })
}

/// Add a kernel parameter.
pub(crate) fn add_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    match boot_loader(case) {
        BootLoader::Grubby => Remedy::command(
            format!("Boot with {parameter}."),
            format!("sudo grubby --update-kernel=ALL --args=\"{parameter}\""),
        ),
        BootLoader::Grub(update) => Remedy::command(
            format!("Add {parameter} to GRUB_CMDLINE_LINUX in /etc/default/grub, then:"),
            update,
        ),
        BootLoader::Vmm(advice) => Remedy::advice(format!("Add {parameter} to {advice}.")),
        BootLoader::Unknown => {
            Remedy::advice(format!("Add {parameter} to the kernel's command line."))
        }
    }
    .changes("from the next boot on")
}

/// Take a kernel parameter away.
pub(crate) fn remove_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    match boot_loader(case) {
        BootLoader::Grubby => Remedy::command(
            format!("Boot without {parameter}."),
            format!("sudo grubby --update-kernel=ALL --remove-args=\"{parameter}\""),
        ),
        BootLoader::Grub(update) => Remedy::command(
            format!("Remove {parameter} from GRUB_CMDLINE_LINUX in /etc/default/grub, then:"),
            update,
        ),
        BootLoader::Vmm(advice) => Remedy::advice(format!("Remove {parameter} from {advice}.")),
        BootLoader::Unknown => {
            Remedy::advice(format!("Remove {parameter} from the kernel's command line."))
        }
    }
    .changes("from the next boot on")
}

/// Have a program that steers the clock.
pub(crate) fn have_time_daemon(case: &Case<'_>) -> Remedy {
    let changes = "the clock is steered from then on, after a reboot too";
    if case.in_container() {
        return Remedy::advice(
            "Run a time daemon (chrony) on the machine itself: a container shares its clock.",
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
            format!("Start {what}, which is installed."),
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
    let what = "Install chrony; it starts by itself.";
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
        _ => Remedy::advice("Install chrony and start it at boot."),
    }
    .changes(changes)
}

/// Add a line to chrony's configuration and have it read.
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

/// Let chrony take the time from the host, by its PTP device.
pub(crate) fn follow_host(case: &Case<'_>, device: &str) -> Remedy {
    chrony_line(
        case,
        "Let chrony follow the host's clock.",
        &format!("refclock PHC {device} poll 2"),
    )
    .changes("at once and from then on; no network is needed for it")
}

/// Debian's and Red Hat's chrony.conf allow steps in the first three updates
/// only, which a pause comes long after.
pub(crate) fn makestep(case: &Case<'_>) -> Remedy {
    chrony_line(case, "Let chrony step the clock at any time.", "makestep 1 -1")
        .changes("at once and from then on: offsets above 1 s are stepped when they appear")
}

/// Have `parachron keep` see to the clock after each pause and restore.
pub(crate) fn keep(case: &Case<'_>) -> Remedy {
    let has_chrony = !case.running(&[TimeKeeperKind::Chrony]).is_empty();
    let (what, command) = match () {
        () if has_chrony => (
            "Or have chrony told of each pause and restore.",
            "sudo parachron keep --chrony makestep",
        ),
        () if case.host_phcs().next().is_some() => (KEPT, "sudo parachron keep"),
        () => (KEPT, "sudo parachron keep --ntp ADDRESS"),
    };
    Remedy::command(what, command)
        .changes("the time of day, while it runs; docs/guide/keep.md has a unit for systemd")
}

/// What `parachron keep` is for.
const KEPT: &str = "Or have the clock set right within a second of each pause and restore.";

/// The name of ntpd's unit.
pub(crate) fn ntpd_unit(case: &Case<'_>) -> &'static str {
    if family(case) == Some(Family::RedHat) { "ntpd" } else { "ntp" }
}

/// What a command that only looks changes.
pub(crate) const LOOKS: &str = "nothing; it only looks";

/// How the kernel's command line is changed here.
enum BootLoader {
    Grubby,
    Grub(&'static str),
    Vmm(&'static str),
    Unknown,
}

fn boot_loader(case: &Case<'_>) -> BootLoader {
    match (case.snapshots(), family(case)) {
        // A microVM boots a kernel its VMM names, without a boot loader.
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

/// Distributions by their ways.
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
