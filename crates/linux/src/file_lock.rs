//! A file that one process of a machine holds locked at a time.
//!
//! The kernel releases the lock when the process ends, even by SIGKILL
//! (`flock`, `man 2 flock`). Who can open a file can lock it, so the file is
//! its owner's alone, and its owner has to be root or this user: an ordinary
//! user can neither hold the lock nor put a file of his own in its place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A file, locked until this is dropped. The file stays.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Locks the file at `path`, which is created, its folders too, if it is not
    /// there; `None` while another process, or another part of this one, holds
    /// it.
    ///
    /// # Errors
    /// It cannot be created or locked, or is another user's.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            // A machine of an initramfs alone has no /run either.
            DirBuilder::new().mode(0o755).recursive(true).create(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        let (owner, own) = (file.metadata()?.uid(), rustix::process::geteuid().as_raw());
        // Root may meet the file of the service's user, who may set the clock.
        if owner != 0 && owner != own && own != 0 {
            let why = format!("{} belongs to user {owner}", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_has_one_holder_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/parachron/lock");
        let first = FileLock::take(&path).unwrap().unwrap();
        assert!(FileLock::take(&path).unwrap().is_none());
        drop(first);
        assert!(FileLock::take(&path).unwrap().is_some());
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "another user could lock what he can open");
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("lock"), folder.path().join("target"));
        symlink(&target, &path).unwrap();
        assert!(FileLock::take(&path).is_err());
        assert!(!target.exists());
    }
}
