//! QEMU's software emulation: a stock kernel and an initramfs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Workshop;
use crate::deeds::vmclock;
use crate::initramfs;
use crate::machine::QEMU;
use crate::machine::Start;
use crate::outcome::{Failure, Unavailable};
use crate::table::{Deed, LAB_IMAGE, Row};
use crate::trees::Kernel;
use crate::{drivers, tools};

/// What every machine has: no device but those of its model and its row.
const COMMON: &str = "-accel tcg -nodefaults -no-user-config -display none -no-reboot -m 512M \
    -chardev stdio,id=line,signal=off";

/// The line is the first serial port.
pub(super) const LINE: &str = "-serial chardev:line";

/// The kernel's console: on a PC, and on arm64's virt.
const CONSOLES: [&str; 2] = ["console=ttyS0", "console=ttyAMA0"];

/// Stands for the rate of TCG's TSC, which is this system's.
const TSC_KHZ: &str = "{tsc_khz}";

/// A network on which this machine is 10.0.2.2.
pub(super) const NETWORK: &str = "-netdev user,id=net -device virtio-net-pci,netdev=net,romfile=";
const NETWORK_MODULES: [&str; 2] = ["virtio_pci", "virtio_net"];

/// Allows its clock to be set (`validation/machines/src/bin/guest-clock`).
pub(super) const DISPOSABLE: &str = "parachron.disposable";

/// What QEMU boots.
#[derive(Debug)]
pub(super) struct Boot {
    /// A kernel, or what is booted before it.
    pub(super) kernel: PathBuf,
    /// Its initramfs or its modules, and its parameters.
    pub(super) linux: Option<(String, String)>,
    /// Options of QEMU.
    pub(super) options: String,
}

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let network = if row.network { NETWORK } else { "" };
    let (kernel, linux) = boots(workshop, row, folder)?;
    let options = format!("{LINE} {network} {}", row.options);
    start(workshop, row, &Boot { kernel, linux, options }, folder)
}

/// How the emulator is started.
pub(super) fn start(
    workshop: &Workshop,
    row: &Row,
    boot: &Boot,
    folder: &Path,
) -> Result<Start, Failure> {
    let (program, files) = hypervisor(workshop, row)?;
    let qmp = folder.join("qmp");
    let mut arguments: Vec<String> = Vec::new();
    for options in [files.as_str(), COMMON, &boot.options] {
        let options = options.replace("{folder}", &folder.display().to_string());
        arguments.extend(options.split_whitespace().map(str::to_owned));
    }
    let mut named = vec![
        ("-qmp", format!("unix:{},server=on,wait=off", qmp.display())),
        ("-kernel", boot.kernel.display().to_string()),
    ];
    if let Some((initrd, append)) = &boot.linux {
        let mut append = append.trim().to_owned();
        if append.contains(TSC_KHZ) {
            append = append.replace(TSC_KHZ, &format!("{:.0}", vmclock::tsc_hz() / 1000.0));
        }
        named.extend([("-initrd", initrd.clone()), ("-append", append)]);
    }
    arguments.extend(named.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
    let environment = row.environment.clone().into_iter().collect();
    Ok(Start { program, arguments, environment, qmp: Some(qmp), limit_s: row.limit_s })
}

/// The kernel of a row, and its initramfs and parameters.
fn boots(
    workshop: &Workshop,
    row: &Row,
    folder: &Path,
) -> Result<(PathBuf, Option<(String, String)>), Failure> {
    if row.kernel == LAB_IMAGE {
        let file = folder.join("guest-image");
        let mut write = Command::new(workshop.programs.join("parachron"));
        tools::output_of(write.args(["lab", "guest-image", "--force"]).arg(&file))?;
        return Ok((file, None));
    }
    let kernel = workshop.kernel(&row.kernel)?;
    let mut modules = row.modules.clone();
    if row.network {
        modules.extend(NETWORK_MODULES.map(str::to_owned));
    }
    let initrd = initrd(workshop, &kernel, &modules, row, folder)?;
    let console = CONSOLES[usize::from(row.is_arm64())];
    let append = format!("{console} panic=-1 {DISPOSABLE} {}", row.append);
    Ok((kernel.image, Some((initrd.display().to_string(), append))))
}

/// The program that runs a row, and the arguments by which it finds its files.
pub(super) fn hypervisor(workshop: &Workshop, row: &Row) -> Result<(PathBuf, String), Failure> {
    let remedy = "install it: apt-get install qemu-system-x86";
    let Some(name) = &row.hypervisor else {
        let program = tools::find_program(QEMU);
        let missing = || Unavailable::new(format!("{} is not installed", QEMU), remedy);
        return Ok((program.ok_or_else(missing)?, String::new()));
    };
    let (one, tree) = workshop.hypervisor(name)?;
    let program = tree.join(&one.program);
    // Its libraries are those of this system's QEMU.
    tools::output_of(Command::new(&program).arg("--version"))
        .map_err(|why| Unavailable::new(why, remedy))?;
    Ok((program, one.arguments.replace("{tree}", &tree.display().to_string())))
}

/// Boots the row's kernels as guests of Parachron's own virtual machine (`bin/stock-linux`).
const STOCK_LINUX: &str = "stock-linux";

/// The static programs of every machine: busybox and ours.
pub(super) fn programs(
    workshop: &Workshop,
    row: &Row,
) -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
    let ours = workshop.programs(row.is_arm64())?;
    let mut programs = vec![("busybox", workshop.busybox(row.is_arm64())?)];
    let stock = (!row.kernels.is_empty()).then_some(STOCK_LINUX);
    for name in ["parachron", "parachrond", "guest-clock"].into_iter().chain(stock) {
        programs.push((name, ours.join(name)));
    }
    programs.into_iter().map(|(name, path)| Ok((name, tools::read(&path)?))).collect()
}

/// Writes the initramfs of a kernel with some of its modules, and of dynamic
/// programs of this system those of the row that are installed.
pub(super) fn initrd(
    workshop: &Workshop,
    kernel: &Kernel,
    modules: &[String],
    row: &Row,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    let programs = programs(workshop, row)?;
    let names: Vec<&str> = modules.iter().map(String::as_str).collect();
    let modules = match names.as_slice() {
        [] => Vec::new(),
        names => drivers::modules(workshop, kernel, names)?,
    };
    let file = folder.join("initrd");
    let dynamic = row.programs.iter().filter_map(|name| tools::find_program(name));
    let files = dynamic.flat_map(|program| with_libraries(&program));
    let files: BTreeMap<PathBuf, PathBuf> = files.collect();
    let contents = files.into_iter().map(|(to, from)| Ok((to, tools::read(&from)?)));
    let mut files = contents.collect::<Result<Vec<_>, String>>()?;
    for name in &row.kernels {
        let kernel = tools::read(&workshop.kernel(name)?.image)?;
        let initrd = stock_initrd(workshop, row, &kernel)?;
        files.push((Path::new("kernels").join(name), kernel));
        files.push((Path::new("kernels").join(format!("{name}.initrd")), initrd));
    }
    initramfs::write(&file, initramfs::INIT, &programs, &files, &modules)?;
    Ok(file)
}

/// The initramfs of a guest of `stock-linux`, whose first program that is. One that boots again
/// has the kernel, and such an initramfs in its own.
fn stock_initrd(workshop: &Workshop, row: &Row, kernel: &[u8]) -> Result<Vec<u8>, Failure> {
    let init = tools::read(&workshop.programs.join(STOCK_LINUX))?;
    let archive = |files: &[(PathBuf, Vec<u8>)]| {
        initramfs::archive(&init, &[], files, &[]).map_err(|error| error.to_string())
    };
    let first = archive(&[])?;
    if !row.does.contains(&Deed::LinuxAgain) {
        return Ok(first);
    }
    Ok(archive(&[("kernel".into(), kernel.to_vec()), ("again".into(), first)])?)
}

/// A dynamic program of this system and its libraries: the path in the machine,
/// and the file here.
pub(super) fn with_libraries(program: &Path) -> Vec<(PathBuf, PathBuf)> {
    let inside = Path::new("/usr/sbin").join(program.file_name().unwrap_or_default());
    let libraries = tools::output_of(Command::new("ldd").arg(program)).unwrap_or_default();
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    let libraries = libraries.lines().filter_map(path).map(|path| (path.clone(), path));
    [(inside, program.to_owned())].into_iter().chain(libraries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_machines_path_and_its_libraries_keep_theirs() {
        let files = with_libraries(Path::new("/bin/sh"));
        assert_eq!(files[0], ("/usr/sbin/sh".into(), "/bin/sh".into()));
        assert!(files.len() > 1, "{files:?}");
        assert!(files[1..].iter().all(|(to, from)| to == from), "{files:?}");
    }
}
