//! Room for a row's files: its initramfs, its disk and its log. A full disk is no fault of
//! the machine, so its row is skipped.

use std::path::Path;

use rustix::fs::statvfs;

use crate::outcome::{Failure, Result, Unavailable};

/// What a row takes: the initramfs of an emulated host has QEMU and its libraries, and a
/// snapshot is of a machine's memory.
const WANTED: u64 = 256 << 20;

/// With less, or without a file more, it is full: what failed was not written whole.
const FULL: u64 = 1 << 20;

const REMEDY: &str = "free space: df -h";

/// Free bytes and files.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Free {
    bytes: u64,
    files: u64,
}

impl Free {
    /// Of the disk that a folder is on, or would be.
    fn of(folder: &Path) -> Option<Self> {
        let disk = folder.ancestors().find_map(|one| statvfs(one).ok())?;
        // A file system that counts no files, as btrfs, says 0 of 0.
        let files = if disk.f_files == 0 { u64::MAX } else { disk.f_favail };
        Some(Self { bytes: disk.f_bavail.saturating_mul(disk.f_frsize), files })
    }

    const fn has(self, bytes: u64) -> bool {
        self.bytes >= bytes && self.files > 0
    }
}

/// Before a row: whether there is enough.
pub(super) fn wanted(folder: &Path) -> Result<(), Failure> {
    match Free::of(folder) {
        Some(free) if !free.has(WANTED) => {
            let Free { bytes, files } = free;
            let why = format!(
                "no space: {} MiB and {files} files are free for {}, the row needs {} MiB",
                bytes >> 20,
                folder.display(),
                WANTED >> 20,
            );
            Err(Unavailable::new(why, REMEDY).into())
        }
        _ => Ok(()),
    }
}

/// After one that failed: whether it, or another beside it, filled the disk.
pub(super) fn used_up(folder: &Path, why: &str) -> Option<Unavailable> {
    let free = Free::of(folder).filter(|free| !free.has(FULL))?;
    let first = why.lines().next().unwrap_or_default();
    let why =
        format!("no space: {} kB are left for {}: {first}", free.bytes / 1000, folder.display());
    Some(Unavailable::new(why, REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_bytes_or_files_is_full() {
        let free = |bytes, files| Free { bytes, files };
        assert!(free(FULL, 1).has(FULL) && !free(FULL - 1, 9).has(FULL));
        assert!(!free(u64::MAX, 0).has(FULL), "no file can be made");
    }

    #[test]
    fn a_folder_to_come_is_on_the_disk_of_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Free::of(&folder.path().join("to/come")).is_some());
        assert_eq!(used_up(folder.path(), "the kernel panicked"), None, "there is room");
    }
}
