//! The guest's files: busybox, kernel modules, our programs, and the commands
//! to run.

use std::path::PathBuf;

use crate::commands::Command;
use crate::cpio::Archive;

/// The first program: a busybox script.
const INIT: &str = include_str!("init.sh");

/// What goes into the guest.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// Static programs by name, busybox among them.
    pub(crate) programs: &'a [(&'a str, Vec<u8>)],
    /// Dynamic programs and the libraries they need, with their paths in the
    /// guest.
    pub(crate) files: &'a [(PathBuf, Vec<u8>)],
    /// Modules in the order to load them.
    pub(crate) modules: &'a [(String, Vec<u8>)],
    /// The commands to run.
    pub(crate) commands: &'a [Command],
}

/// The archive that the kernel unpacks, and whose `/init` it starts.
pub(crate) fn build(contents: &Contents<'_>) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    // The kernel opens it for /init before anything is mounted
    // (Documentation/filesystems/ramfs-rootfs-initramfs.rst).
    archive.device("dev/console", 5, 1);
    archive.file("init", INIT.as_bytes());
    for (name, bytes) in contents.programs {
        archive.file(&format!("bin/{name}"), bytes);
    }
    let mut made = vec!["bin".to_owned()];
    for (path, bytes) in contents.files {
        let path = path.to_string_lossy();
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            if !made.iter().any(|folder| *folder == path[..end]) {
                archive.folder(&path[..end]);
                made.push(path[..end].to_owned());
            }
        }
        archive.file(path, bytes);
    }
    let mut order = String::new();
    for (name, bytes) in contents.modules {
        archive.file(&format!("modules/{name}.ko"), bytes);
        order.push_str(&format!("{name}.ko\n"));
    }
    archive.file("modules/order", order.as_bytes());
    archive.file("commands", lines(contents.commands).as_bytes());
    archive.finish()
}

/// One line per command, as `init.sh` reads them.
fn lines(commands: &[Command]) -> String {
    let line =
        |command: &Command| format!("{} {} {}\n", command.name, command.limit_s, command.line);
    commands.iter().map(line).collect()
}
