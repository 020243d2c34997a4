//! A whole Debian on QEMU's software emulation, with systemd and what else its
//! packages bring. Its disk is made once and kept in the cache; what a machine
//! writes is in its memory, moves with that and is lost with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Workshop;
use super::emulated::{self, Boot};
use crate::initramfs;
use crate::machine::Start;
use crate::outcome::{Failure, Unavailable};
use crate::table::{Deed, Row};
use crate::{drivers, tools, trees};

/// The first program, and what it adds to the disk.
const INIT: &[u8] = include_bytes!("debian.sh");
const UNIT: &[u8] = include_bytes!("line.service");

const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "ext4", "overlay"];

/// No login on the line, and nothing of systemd's on it.
const PARAMETERS: &str =
    "console=ttyS0 quiet panic=-1 systemd.getty_auto=no systemd.show_status=no net.ifnames=0";

/// Room on the disk beyond what is on it.
const SIZE: &str = "700M";

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let name = row.system.as_ref().ok_or_else(|| "a row of debian has a system".to_owned())?;
    let disk = disk(workshop, name)?;
    let kernel = workshop.kernel(&row.kernel)?;
    let mut modules: Vec<&str> = MODULES.to_vec();
    modules.extend(row.modules.iter().map(String::as_str));
    if row.network {
        modules.push("virtio_net");
    }
    let modules = drivers::modules(workshop, &kernel, &modules)?;
    let mut files =
        vec![("line".into(), initramfs::INIT.to_vec()), ("line.service".into(), UNIT.to_vec())];
    files.extend(below(&tools::root().join("packaging"), "packaging")?);
    if row.does.contains(&Deed::Packages) {
        let packages = below(&workshop.packages, "packages").unwrap_or_default();
        if !packages.iter().any(|(path, _)| path.extension().is_some_and(|it| it == "deb")) {
            let here = workshop.packages.strip_prefix(tools::root());
            let why = format!("no packages in {}", here.unwrap_or(&workshop.packages).display());
            return Err(Unavailable::new(why, "build them: cargo xtask dist").into());
        }
        let is_ours = |path: &Path| path.to_string_lossy().ends_with("_amd64.deb");
        files.extend(packages.into_iter().filter(|(path, _)| is_ours(path)));
        files.push(apparmor(workshop, folder)?);
    }
    let programs = emulated::programs(workshop, row)?;
    let initrd = folder.join("initrd");
    initramfs::write(&initrd, INIT, &programs, &files, &modules)?;
    let drive = format!("-drive if=virtio,format=raw,snapshot=on,file={}", disk.display());
    let network = if row.network { emulated::NETWORK } else { "" };
    let boot = Boot {
        kernel: kernel.image,
        linux: Some((
            initrd.display().to_string(),
            format!("{PARAMETERS} {} {}", emulated::DISPOSABLE, row.append),
        )),
        options: format!("{} {drive} {network} {}", emulated::LINE, row.options),
    };
    emulated::start(workshop, row, &boot, folder)
}

/// The files of a folder, for a folder of the machine: what an administrator
/// installs besides the programs, or our packages.
fn below(folder: &Path, to: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.path().is_dir() {
            continue;
        }
        let bytes = fs::read(entry.path()).map_err(cannot)?;
        files.push((Path::new(to).join(entry.file_name()), bytes));
    }
    Ok(files)
}

/// What compiles and loads AppArmor's profiles, with what those include. Its program needs
/// glibc alone, so one serves all suites.
fn apparmor(workshop: &Workshop, folder: &Path) -> Result<(PathBuf, Vec<u8>), Failure> {
    let tree = workshop.unpacked("bookworm", "apparmor", &["apparmor"])?;
    let archive = folder.join("apparmor.tar");
    let mut pack = Command::new("tar");
    pack.arg("-C").arg(tree).arg("-cf").arg(&archive).args(["sbin", "etc/apparmor.d"]);
    tools::output_of(&mut pack)?;
    Ok(("packages/apparmor.tar".into(), tools::read(&archive)?))
}

/// The disk of a system, made when it is not in the cache.
fn disk(workshop: &Workshop, name: &str) -> Result<PathBuf, Failure> {
    let folder = workshop.folder("disks")?;
    let file = format!("{name}.ext4");
    trees::made_once(&folder, &file, |part| {
        let tree = workshop.system(name)?;
        let mut make = Command::new(tools::find_program("mke2fs").unwrap_or("mke2fs".into()));
        make.args(["-q", "-t", "ext4", "-d"]).arg(tree).arg(part).arg(SIZE);
        let needs = |why| {
            Unavailable::new(
                why,
                "install e2fsprogs (apt-get install e2fsprogs) and free space on the disk",
            )
        };
        Ok(tools::output_of(&mut make).map(drop).map_err(needs)?)
    })
}
