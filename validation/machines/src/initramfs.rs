//! A machine's files: busybox, kernel modules and our programs, as a cpio archive, which the kernel unpacks (Linux:
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cpio::newc::{Builder, trailer};

/// The first program: a busybox script.
pub(crate) const INIT: &[u8] = include_bytes!("init.sh");

/// Kinds and permissions of entries, as in `stat`.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// Writes the archive that the kernel unpacks, and whose `/init` it starts: static programs by
/// name, busybox among them; files with their paths in the machine; and modules in the order to
/// load them.
pub(crate) fn write(
    file: &Path,
    init: &[u8],
    programs: &[(&str, Vec<u8>)],
    files: &[(PathBuf, Vec<u8>)],
    modules: &[(String, Vec<u8>)],
) -> Result<(), String> {
    let archive = archive(init, programs, files, modules);
    let written = archive.and_then(|bytes| fs::write(file, bytes));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// The archive itself.
pub(crate) fn archive(
    init: &[u8],
    programs: &[(&str, Vec<u8>)],
    files: &[(PathBuf, Vec<u8>)],
    modules: &[(String, Vec<u8>)],
) -> io::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
        archive.add(Builder::new(folder).mode(FOLDER), &[])?;
    }
    // The kernel opens it for /init before anything is mounted
    // (Documentation/filesystems/ramfs-rootfs-initramfs.rst).
    archive.add(Builder::new("dev/console").mode(DEVICE).rdev_major(5).rdev_minor(1), &[])?;
    archive.file("init", init)?;
    for (name, bytes) in programs {
        archive.file(&format!("bin/{name}"), bytes)?;
    }
    let mut folders = BTreeSet::from(["bin".to_owned()]);
    for (path, bytes) in files {
        let path = path.to_string_lossy();
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            if folders.insert(path[..end].to_owned()) {
                archive.add(Builder::new(&path[..end]).mode(FOLDER), &[])?;
            }
        }
        archive.file(path, bytes)?;
    }
    let mut order = String::new();
    for (name, bytes) in modules {
        archive.file(&format!("modules/{name}.ko"), bytes)?;
        order.push_str(&format!("{name}.ko\n"));
    }
    archive.file("modules/order", order.as_bytes())?;
    trailer(archive.bytes)
}

/// An archive under construction.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.add(Builder::new(path).mode(PROGRAM), content)
    }

    fn add(&mut self, entry: Builder, content: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut writer = entry.ino(self.entries).write(&mut self.bytes, size);
        writer.write_all(content)?;
        writer.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use cpio::NewcReader;

    use super::*;

    #[test]
    fn the_archive_has_every_file_below_its_folders() {
        let library = (PathBuf::from("/usr/lib/libc.so"), b"elf".to_vec());
        let bytes = archive(
            INIT,
            &[("busybox", b"box".to_vec())],
            &[library],
            &[("kvm".to_owned(), b"ko".to_vec())],
        )
        .unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let (mut rest, mut found) = (bytes.as_slice(), Vec::new());
        loop {
            let mut reader = NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut text = String::new();
            io::Read::read_to_string(&mut reader, &mut text).unwrap();
            found.push(format!("{name} {mode:o} {text}"));
            rest = reader.finish().unwrap();
        }
        for expected in [
            "dev/console 20600 ",
            "bin/busybox 100755 box",
            "usr/lib/libc.so 100755 elf",
            "modules/kvm.ko 100755 ko",
            "modules/order 100755 kvm.ko\n",
        ] {
            assert!(found.iter().any(|entry| entry == expected), "{expected:?}: {found:?}");
        }
        let place = |name: &str| found.iter().position(|entry| entry.starts_with(name)).unwrap();
        assert!(place("usr 40755") < place("usr/lib 40755"));
        assert!(place("usr/lib 40755") < place("usr/lib/libc.so"));
    }
}
