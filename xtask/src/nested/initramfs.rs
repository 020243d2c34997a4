//! The guest's files: busybox, the modules, the program, and what to run.

use crate::nested::commands::Command;
use crate::nested::cpio::Archive;

/// The first program: a script of busybox's.
const INIT: &str = include_str!("init.sh");

/// What goes into the guest.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// busybox, static.
    pub(crate) busybox: &'a [u8],
    /// `parachron`, static.
    pub(crate) program: &'a [u8],
    /// Modules in the order to load them.
    pub(crate) modules: &'a [(String, Vec<u8>)],
    /// What to run.
    pub(crate) commands: &'a [Command],
}

/// The archive that the kernel unpacks and starts `/init` of.
pub(crate) fn build(contents: &Contents<'_>) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    // The kernel opens it for /init before anything is mounted
    // (Documentation/filesystems/ramfs-rootfs-initramfs.rst).
    archive.device("dev/console", 5, 1);
    archive.file("init", INIT.as_bytes());
    archive.file("bin/busybox", contents.busybox);
    archive.file("bin/parachron", contents.program);
    let mut order = String::new();
    for (name, bytes) in contents.modules {
        archive.file(&format!("modules/{name}.ko"), bytes);
        order.push_str(&format!("{name}.ko\n"));
    }
    archive.file("modules/order", order.as_bytes());
    archive.file("commands", lines(contents.commands).as_bytes());
    archive.finish()
}

/// One line a command, as `init.sh` reads them.
fn lines(commands: &[Command]) -> String {
    let line =
        |command: &Command| format!("{} {} {}\n", command.name, command.limit_s, command.line);
    commands.iter().map(line).collect()
}
