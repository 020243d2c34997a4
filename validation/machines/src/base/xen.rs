//! Xen on QEMU's software emulation, and Linux as its control domain (dom0).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Workshop;
use super::emulated::{self, Boot};
use crate::machine::Start;
use crate::outcome::{Failure, Unavailable};
use crate::table::Row;
use crate::tools;

/// The first serial port is Xen's, the second one the line: Xen would turn each
/// line feed on its own into two bytes, and keeps 128 bytes of what comes in.
const PORTS: &str = "-serial file:{folder}/console.log -serial chardev:line";

/// Xen's parameters (docs/misc/xen-command-line.pandoc).
const XEN: &str = "console=com1 com1=115200 cpuidle=0";

/// Linux prints on both, so that a panic is seen.
const PARAMETERS: &str = "console=hvc0 console=ttyS1 quiet panic=-1";

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let kernel = workshop.kernel(&row.kernel)?;
    let initrd = emulated::initrd(workshop, &kernel, &row.modules, row, folder)?;
    let parameters = format!("{PARAMETERS} {} {}", emulated::DISPOSABLE, row.append);
    start(workshop, row, folder, &row.options, (&kernel.image, &initrd, parameters.trim()))
}

/// Starts Xen on a machine of the emulator, and a control domain: its kernel,
/// initramfs and parameters.
pub(super) fn start(
    workshop: &Workshop,
    row: &Row,
    folder: &Path,
    machine: &str,
    (image, initrd, parameters): (&Path, &Path, &str),
) -> Result<Start, Failure> {
    let below = row.below.as_ref().ok_or_else(|| "a row on Xen has [row.below]".to_owned())?;
    let boot = Boot {
        kernel: xen(workshop, &below.program, folder)?,
        // Multiboot modules: the kernel with its parameters, and its initramfs.
        linux: Some((
            format!("{} {parameters},{}", image.display(), initrd.display()),
            format!("{XEN} {}", below.append),
        )),
        options: format!("{PORTS} {machine} {}", below.options),
    };
    emulated::start(workshop, row, &boot, folder)
}

/// Xen's image, unpacked: QEMU boots an ELF file only.
fn xen(workshop: &Workshop, name: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let (one, tree) = workshop.hypervisor(name)?;
    let packed = tree.join(&one.program);
    let file = folder.join("xen");
    let mut unpack = Command::new("sh");
    unpack.args(["-c", "gzip -dc \"$0\" >\"$1\""]).arg(&packed).arg(&file);
    let remedy = "install gzip: apt-get install gzip";
    tools::output_of(&mut unpack).map_err(|why| Unavailable::new(why, remedy))?;
    Ok(file)
}
