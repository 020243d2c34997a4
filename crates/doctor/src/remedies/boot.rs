//! How the kernel's command line is changed, by the boot loader's files that are
//! here: a distribution alone does not tell its boot loader.

use facts::Fact;
use facts::system::boot;

use super::{Family, family};
use crate::case::Case;
use crate::finding::Remedy;

/// Add a kernel parameter.
pub(crate) fn add_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    let words = Words { boot: "Boot with", option: "--args", kargs: "--append", change: "Add" };
    change_parameter(case, parameter, &words, "to")
}

/// Remove a kernel parameter.
pub(crate) fn remove_parameter(case: &Case<'_>, parameter: &str) -> Remedy {
    let words = Words {
        boot: "Boot without",
        option: "--remove-args",
        kargs: "--delete",
        change: "Remove",
    };
    change_parameter(case, parameter, &words, "from")
}

struct Words {
    boot: &'static str,
    /// grubby's option.
    option: &'static str,
    /// That of `rpm-ostree kargs`.
    kargs: &'static str,
    change: &'static str,
}

fn change_parameter(case: &Case<'_>, parameter: &str, words: &Words, to: &str) -> Remedy {
    let Words { boot, option, kargs, change } = words;
    let at = |place: &str| format!("{change} {parameter} {to} {place}");
    match boot_loader(case) {
        BootLoader::Grubby => Remedy::command(
            format!("{boot} {parameter}."),
            format!("sudo grubby --update-kernel=ALL {option}=\"{parameter}\""),
        ),
        BootLoader::RpmOstree => {
            let each = parameter.split_whitespace().map(|word| format!(" {kargs}={word}"));
            let each: String = each.collect();
            Remedy::command(format!("{boot} {parameter}."), format!("sudo rpm-ostree kargs{each}"))
        }
        BootLoader::Files(place, update) => Remedy::command(at(place), update),
        BootLoader::Vmm(place) => Remedy::advice(at(place) + "."),
        BootLoader::Unknown => Remedy::advice(at("the kernel's command line.")),
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
        return BootLoader::Vmm("boot_args, where Firecracker's boot source is set");
    }
    let has = |file: &str| {
        case.facts.system.boot_files.is_known_and(|all| all.iter().any(|one| one == file))
    };
    // A capture of an earlier version did not look.
    let looked = matches!(case.facts.system.boot_files, Fact::Known(_));
    let grub = if looked {
        "GRUB_CMDLINE_LINUX in /etc/default/grub, then:"
    } else {
        "GRUB_CMDLINE_LINUX in /etc/default/grub, if that file is here, then:"
    };
    if has(boot::OSTREE) {
        return BootLoader::RpmOstree;
    }
    // Proxmox: "Host Bootloader". Its systems are Debian's by name.
    if has(boot::PROXMOX) {
        let place = "GRUB_CMDLINE_LINUX in /etc/default/grub where `proxmox-boot-tool status` \
                     says grub, to the line in /etc/kernel/cmdline where it says uefi; then:";
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
        return BootLoader::Files(grub, update);
    }
    // systemd-boot and unified kernel images, by kernel-install(8).
    if has(boot::KERNEL_INSTALL) {
        let place = "the line in /etc/kernel/cmdline, then (or, where kernel-install(8) has no \
                     add-all, add with each kernel):";
        return BootLoader::Files(place, "sudo kernel-install add-all");
    }
    BootLoader::Unknown
}

#[cfg(test)]
mod tests {
    use facts::Facts;

    use super::*;
    use crate::testing::{gone, healthy_kvm_guest};

    fn shown(facts: &Facts, change: fn(&Case<'_>, &str) -> Remedy) -> String {
        let remedy = change(&Case::new(facts, None), "a=1 b");
        format!("{} $ {}", remedy.what, remedy.command.unwrap_or_default())
    }

    fn added(files: &[&str]) -> String {
        let mut facts = healthy_kvm_guest();
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        facts.system.boot_files = Fact::Known(files);
        shown(&facts, add_parameter)
    }

    #[test]
    fn the_boot_loader_is_told_by_its_files_and_not_by_the_distribution() {
        let grub = "Add a=1 b to GRUB_CMDLINE_LINUX in /etc/default/grub, then: $ sudo update-grub";
        assert_eq!(added(&[boot::GRUB]), grub);
        assert_eq!(added(&[]), "Add a=1 b to the kernel's command line. $ ");
        let proxmox = added(&[boot::GRUB, boot::KERNEL_INSTALL, boot::PROXMOX]);
        assert!(
            proxmox.ends_with("it says uefi; then: $ sudo proxmox-boot-tool refresh"),
            "{proxmox}"
        );
        let systemd = added(&[boot::KERNEL_INSTALL]);
        assert!(systemd.starts_with("Add a=1 b to the line in /etc/kernel/cmdline"), "{systemd}");
        assert!(systemd.ends_with("$ sudo kernel-install add-all"), "{systemd}");
        let ostree = "Boot with a=1 b. $ sudo rpm-ostree kargs --append=a=1 --append=b";
        assert_eq!(added(&[boot::OSTREE]), ostree);
        let transactional = added(&[boot::GRUB, boot::TRANSACTIONAL]);
        assert!(transactional.ends_with("$ sudo transactional-update grub.cfg"), "{transactional}");
    }

    #[test]
    fn where_nobody_looked_the_file_is_not_taken_for_granted() {
        let mut facts = healthy_kvm_guest();
        facts.system.boot_files = gone("parachron/boot-files");
        assert_eq!(
            shown(&facts, remove_parameter),
            "Remove a=1 b from GRUB_CMDLINE_LINUX in /etc/default/grub, if that file is here, \
             then: $ sudo update-grub"
        );
    }
}
