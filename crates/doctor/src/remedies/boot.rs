//! How the kernel's command line is changed, by the boot loader's files that are
//! here: a distribution alone does not tell its boot loader.

use facts::system::boot;

use super::{Family, family};
use crate::case::Case;
use crate::finding::Remedy;

/// Add a kernel parameter.
pub(crate) fn add_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    change_parameter(case, parameter, ["Boot with", "--args", "--append", "Add", "to"])
}

/// Remove a kernel parameter.
pub(crate) fn remove_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    change_parameter(
        case,
        parameter,
        ["Boot without", "--remove-args", "--delete", "Remove", "from"],
    )
}

fn change_parameter(
    case: &Case<'_>,
    parameter: &str,
    [boot, grubby, kargs, change, to]: [&str; 5],
) -> Remedy {
    let at = |place: &str| format!("{change} {parameter} {to} {place}");
    match boot_loader(case) {
        BootLoader::Grubby => Remedy::quoting(
            format!("{boot} {parameter}."),
            "sudo grubby --update-kernel=ALL",
            &[&format!("{grubby}={parameter}")],
        ),
        BootLoader::RpmOstree => {
            let words: Vec<String> =
                parameter.split_whitespace().map(|word| format!("{kargs}={word}")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Remedy::quoting(format!("{boot} {parameter}."), "sudo rpm-ostree kargs", &words)
        }
        BootLoader::Files(place, update) => Remedy::command(at(place), update),
        BootLoader::Vmm(place) => Remedy::advice(at(place) + "."),
        BootLoader::Unknown => Remedy::advice(at("the kernel's command line (then reboot).")),
    }
    .changes("from the next boot on")
}

enum BootLoader {
    Grubby,
    RpmOstree,
    /// Where the line stands, and what takes it from there.
    Files(&'static str, &'static str),
    Vmm(&'static str),
    Unknown,
}

fn boot_loader(case: &Case<'_>) -> BootLoader {
    // A microVM boots the kernel its VMM loads, without a boot loader.
    if case.snapshots() == Some("Firecracker") {
        return BootLoader::Vmm("boot_args in Firecracker's boot source");
    }
    let has = |file: &str| case.boot_files().is_ok_and(|all| all.iter().any(|path| path == file));
    // A capture of an earlier version did not look.
    let looked = case.boot_files().is_ok();
    if has(boot::OSTREE) {
        return BootLoader::RpmOstree;
    }
    // Proxmox: "Host Bootloader". Its systems are Debian's by name.
    if has(boot::PROXMOX) {
        let place = "GRUB_CMDLINE_LINUX in /etc/default/grub if `proxmox-boot-tool status` reports \
                     grub, to the line in /etc/kernel/cmdline if it reports uefi; then run:";
        return BootLoader::Files(place, "sudo proxmox-boot-tool refresh");
    }
    let family = family(case);
    if family == Some(Family::RedHat) {
        return BootLoader::Grubby;
    }
    if !looked || has(boot::GRUB) {
        let update = match family {
            _ if has(boot::TRANSACTIONAL) => "sudo transactional-update grub.cfg",
            Some(Family::Suse) => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
            Some(Family::Arch) => "sudo grub-mkconfig -o /boot/grub/grub.cfg",
            Some(Family::Debian) => "sudo update-grub",
            _ => return BootLoader::Unknown,
        };
        let place = if looked {
            "GRUB_CMDLINE_LINUX in /etc/default/grub, then run:"
        } else {
            "GRUB_CMDLINE_LINUX in /etc/default/grub, if that file exists, then run:"
        };
        return BootLoader::Files(place, update);
    }
    // systemd-boot and unified kernel images, by kernel-install(8).
    if has(boot::KERNEL_INSTALL) {
        let place = "the line in /etc/kernel/cmdline, then run the next command; if \
                     kernel-install(8) has no add-all, run `kernel-install add` for each kernel:";
        return BootLoader::Files(place, "sudo kernel-install add-all");
    }
    BootLoader::Unknown
}

#[cfg(test)]
mod tests {
    use facts::Fact;

    use super::*;
    use crate::testing::{healthy_kvm_guest, missing};

    fn remedy_text(boot_files: Fact<Vec<String>>) -> String {
        let mut facts = healthy_kvm_guest();
        facts.system.boot_files = boot_files;
        let remedy = add_parameter(&Case::new(&facts, None), "a=1 b");
        format!("{} $ {}", remedy.what, remedy.command.unwrap_or_default())
    }

    #[test]
    fn the_boot_loader_is_told_by_its_files_and_not_by_the_distribution() {
        let files = |all: &[&str]| {
            remedy_text(Fact::Known(all.iter().map(|path| (*path).into()).collect()))
        };
        for (all, starts, ends) in [
            (
                &[boot::GRUB][..],
                "Add a=1 b to GRUB_CMDLINE_LINUX",
                "grub, then run: $ sudo update-grub",
            ),
            (&[], "Add a=1 b to the kernel's command line (then reboot).", " $ "),
            (
                &[boot::GRUB, boot::KERNEL_INSTALL, boot::PROXMOX],
                "Add a=1 b to GRUB_CMDLINE_LINUX in /etc/default/grub if `proxmox-boot-tool",
                "reports uefi; then run: $ sudo proxmox-boot-tool refresh",
            ),
            (&[boot::KERNEL_INSTALL], "Add a=1 b to the line in", "$ sudo kernel-install add-all"),
            (&[boot::OSTREE], "Boot with a=1 b. $ sudo rpm", "kargs '--append=a=1' '--append=b'"),
            (&[boot::GRUB, boot::TRANSACTIONAL], "Add", "$ sudo transactional-update grub.cfg"),
        ] {
            let told = files(all);
            assert!(told.starts_with(starts) && told.ends_with(ends), "{all:?}: {told}");
        }
        // As a capture of a stranger's machine may have it.
        let mut facts = healthy_kvm_guest();
        facts.system.distribution = Fact::Known("Fedora Linux 42".into());
        let remedy = remove_parameter(&Case::new(&facts, None), "clocksource=$(id>x)");
        let command = "sudo grubby --update-kernel=ALL '--remove-args=clocksource=$(id>x)'";
        assert_eq!(remedy.command.as_deref(), Some(command));
        // Where nobody looked, the file is not taken for granted.
        let told = remedy_text(missing("parachron/boot-files"));
        assert!(told.ends_with("if that file exists, then run: $ sudo update-grub"), "{told}");
    }
}
