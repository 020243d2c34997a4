//! The initramfs of a stock kernel: this program alone, as the first one (Linux:
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

use cpio::newc::{Builder, trailer};

/// Kinds and permissions, as in `stat`.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// The folder of modules to load, in the order of their names.
pub(crate) const MODULES: &str = "modules";

/// A kernel to boot by kexec.
pub(crate) const KERNEL: &str = "kernel";

/// Whether an ELF asks for an interpreter, which the initramfs does not have: a
/// program header of type PT_INTERP (elf(5)).
pub(crate) fn is_dynamic(program: &[u8]) -> bool {
    const PT_INTERP: usize = 3;
    let number = |at: usize, bytes: usize| {
        let bytes = program.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte)) as usize)
    };
    let headers = number(32, 8).zip(number(54, 2)).zip(number(56, 2));
    let Some(((first, size), count)) = headers else { return false };
    let kind = |header: usize| number(first.checked_add(header * size)?, 4);
    (0..count).any(|header| kind(header) == Some(PT_INTERP))
}

/// The archive whose `/init` is `program`.
pub(crate) fn archive(program: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    folders(&mut bytes, &["dev", "proc", "sys", "tmp"])?;
    // The kernel opens it for /init before anything is mounted
    // (Documentation/filesystems/ramfs-rootfs-initramfs.rst).
    let console = Builder::new("dev/console").ino(10).mode(DEVICE).rdev_major(5).rdev_minor(1);
    console.write(&mut bytes, 0).finish()?;
    file(&mut bytes, 11, "init", program)?;
    trailer(bytes)
}

/// An archive of modules, to come after another one: the kernel unpacks all that it is
/// given.
pub(crate) fn modules(modules: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    folders(&mut bytes, &[MODULES])?;
    for (index, module) in (0..).zip(modules) {
        file(&mut bytes, 20 + index, &format!("{MODULES}/{index:02}.ko"), module)?;
    }
    trailer(bytes)
}

/// An archive of a kernel.
pub(crate) fn kernel(kernel: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file(&mut bytes, 19, KERNEL, kernel)?;
    trailer(bytes)
}

/// Puts one archive behind another: each begins at a multiple of four.
pub(crate) fn append(archive: &mut Vec<u8>, more: &[u8]) {
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(more);
}

fn folders(bytes: &mut Vec<u8>, names: &[&str]) -> io::Result<()> {
    for (inode, folder) in (1..).zip(names) {
        Builder::new(folder).ino(inode).mode(FOLDER).write(&mut *bytes, 0).finish()?;
    }
    Ok(())
}

fn file(bytes: &mut Vec<u8>, inode: u32, name: &str, content: &[u8]) -> io::Result<()> {
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut file = Builder::new(name).ino(inode).mode(PROGRAM).write(bytes, size);
    file.write_all(content)?;
    file.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use cpio::NewcReader;

    use super::*;

    #[test]
    fn this_test_is_dynamic_and_no_elf_is_not() {
        let this = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_dynamic(&this), !cfg!(target_feature = "crt-static"));
        assert!(!is_dynamic(b"") && !is_dynamic(&[0xff; 100]));
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let (mut rest, mut names) = (bytes, Vec::new());
        loop {
            let reader = NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return names;
            }
            names.push(format!("{} {:o}", reader.entry().name(), reader.entry().mode()));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn it_has_the_program_and_a_console() {
        let expected = [
            "dev 40755",
            "proc 40755",
            "sys 40755",
            "tmp 40755",
            "dev/console 20600",
            "init 100755",
        ];
        assert_eq!(names(&archive(b"program").unwrap()), expected);
        let modules = modules(&[vec![1], vec![2, 3]]).unwrap();
        assert_eq!(
            names(&modules),
            ["modules 40755", "modules/00.ko 100755", "modules/01.ko 100755"]
        );
    }
}
