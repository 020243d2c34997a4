//! A machine under real KVM: QEMU with `-accel kvm`, in a host that QEMU's
//! software emulation of AMD's virtualization runs.

use std::path::{Path, PathBuf};

use super::Workshop;
use super::emulated::{self, Boot};
use crate::drivers;
use crate::initramfs;
use crate::machine::Start;
use crate::outcome::Failure;
use crate::table::{Below, Row};
use crate::tools::{self, read};

/// The first program of the host.
const INIT: &[u8] = include_bytes!("kvm.sh");

/// Where the host has what its machine needs.
const MACHINE: &str = "machine";

/// The host's memory, its console, the line, the protocol of its QEMU, a shell
/// of its own, and its modules. The line is a virtio port in the host and in the machine, which
/// passes a buffer at once: a serial port would cost some exits for each byte,
/// emulated each.
const HOST: &str = "-machine q35 -m 3G -serial file:{folder}/console.log -device virtio-serial-pci \
    -device virtserialport,chardev=line \
    -chardev socket,id=qmp-inside,path={folder}/qmp-inside,server=on,wait=off \
    -device virtserialport,chardev=qmp-inside \
    -chardev socket,id=shell,path={folder}/shell,server=on,wait=off \
    -device virtserialport,chardev=shell";
const HOST_MODULES: [&str; 3] = ["virtio_pci", "virtio_console", "kvm-amd"];

/// The host's parameters. Emulation on a busy machine is late for the check
/// that the timer works (arch/x86/kernel/apic/io_apic.c, timer_irq_works).
const HOST_PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check";

/// Files of the host by their paths.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// What every machine has. Its kernel prints on the host's console. The line is
/// notified by an I/O port, as old virtio devices are: a write to memory exits as
/// a nested page fault, which the emulation now and then reports as one in the
/// middle of an interrupt's delivery, and KVM gives up (suberror 3).
const COMMON: &str = "-accel kvm -nodefaults -no-user-config -display none -no-reboot -m 512M \
    -machine q35 -serial file:/dev/console -chardev stdio,id=line,signal=off \
    -qmp tcp:127.0.0.1:4444,server=on,wait=off \
    -device virtio-serial-pci,disable-legacy=off,disable-modern=on \
    -device virtserialport,chardev=line";
const MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check parachron.line=vport0p1";

/// QEMU's firmware, of its own package or of seabios.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "linuxboot_dma.bin"];
const FIRMWARE_FOLDERS: [&str; 2] = ["qemu", "seabios"];

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let below = row.below.as_ref().ok_or_else(|| "a row under KVM has [row.below]".to_owned())?;
    let kernel = workshop.kernel(&row.kernel)?;
    let mut modules = MODULES.map(str::to_owned).to_vec();
    modules.extend(row.modules.iter().cloned());
    let initrd = emulated::initrd(workshop, &kernel, &modules, row, folder)?;
    let mut files: Files = vec![
        (inside("kernel"), read(&kernel.image)?),
        (inside("initrd"), read(&initrd)?),
        (inside("arguments"), arguments(row).into_bytes()),
    ];
    add_qemu(workshop, row, &mut files)?;
    let host = host(workshop, below, &files, folder)?;
    let start = emulated::start(workshop, row, &host, folder)?;
    // What is done to the machine is done by the host's QEMU.
    Ok(Start { qmp: Some(folder.join("qmp-inside")), ..start })
}

/// The host, which QEMU's emulation boots.
fn host(
    workshop: &Workshop,
    below: &Below,
    files: &[(PathBuf, Vec<u8>)],
    folder: &Path,
) -> Result<Boot, Failure> {
    let kernel = workshop.kernel(&below.program)?;
    let more = below.modules.iter().map(String::as_str);
    let names: Vec<&str> = HOST_MODULES.into_iter().chain(more).collect();
    let modules = drivers::modules(workshop, &kernel, &names)?;
    let mut programs = vec![("busybox", read(&workshop.busybox(false)?)?)];
    for name in &below.programs {
        programs.push((name, read(&workshop.programs.join(name))?));
    }
    let file = folder.join("host-initrd");
    initramfs::write(&file, INIT, &programs, files, &modules)?;
    Ok(Boot {
        kernel: kernel.image,
        linux: Some((file.display().to_string(), format!("{HOST_PARAMETERS} {}", below.append))),
        options: format!("{HOST} {}", below.options),
    })
}

/// The arguments of the host's QEMU, one a line.
fn arguments(row: &Row) -> String {
    let mut lines: Vec<String> = COMMON.split_whitespace().map(str::to_owned).collect();
    lines.extend(row.options.split_whitespace().map(str::to_owned));
    let append = format!("{PARAMETERS} {} {}", emulated::DISPOSABLE, row.append);
    let fixed = ["-L", "/machine", "-kernel", "/machine/kernel", "-initrd", "/machine/initrd"];
    lines.extend(fixed.map(str::to_owned));
    lines.extend(["-append".to_owned(), append.trim().to_owned()]);
    lines.join("\n") + "\n"
}

/// QEMU, its libraries and its firmware, and util-linux's `chrt`, which busybox lacks.
fn add_qemu(workshop: &Workshop, row: &Row, files: &mut Files) -> Result<(), Failure> {
    let (program, _) = emulated::hypervisor(workshop, row)?;
    files.push((inside("qemu"), read(&program)?));
    for (_, library) in emulated::with_libraries(&program).into_iter().skip(1) {
        let name = library.file_name().unwrap_or_default().to_owned();
        files.push((inside("lib").join(name), read(&library)?));
    }
    // Its library is QEMU's too. A deed that needs it says so where it is missing.
    if let Some(chrt) = tools::find_program("chrt") {
        files.push((inside("chrt"), read(&chrt)?));
    }
    let share = program.ancestors().nth(2).unwrap_or(Path::new("/usr")).join("share");
    for name in FIRMWARE {
        let found = FIRMWARE_FOLDERS.map(|folder| share.join(folder).join(name));
        let found = found.iter().find(|path| path.is_file());
        let found = found.ok_or_else(|| format!("no {name} in {}", share.display()))?;
        files.push((inside(name), read(found)?));
    }
    Ok(())
}

fn inside(name: &str) -> PathBuf {
    Path::new(MACHINE).join(name)
}
