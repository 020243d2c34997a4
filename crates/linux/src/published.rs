//! Files that a setting names: those that this process publishes or stores, and those that it reads.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// World-readable, and only ours to write.
const MODE: u32 = 0o644;

/// Opens what is to be read: the open of a pipe would wait until somebody writes to it.
///
/// # Errors
/// Those of open.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The file that is there, to be written on, as others have it mapped: what we
/// publish, nobody else may change.
pub(crate) fn file(path: &Path) -> io::Result<File> {
    let file = options().open(path)?;
    let metadata = file.metadata()?;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
        && metadata.mode() & 0o777 == MODE;
    if metadata.is_file() && is_ours { Ok(file) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// A new file in the place of the one that is there, world-readable: complete before it
/// has its name, so that nobody finds half of it. A device, a folder or a link in its place was
/// named by mistake, and stays. A disk that is full leaves the old one. After a loss of power it may
/// be neither, as a slow disk must not delay samples.
///
/// # Errors
/// It cannot be written, or something else is there.
pub fn new_file(path: &Path, content: &[u8]) -> io::Result<File> {
    if let Ok(there) = path.symlink_metadata()
        && !there.is_file()
    {
        let why = format!("{} exists and is no regular file", path.display());
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // What a killed process left.
    let _ = std::fs::remove_file(&new);
    let mut file = options().create_new(true).open(&new)?;
    // Whatever the umask.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(content)?;
    std::fs::rename(&new, path)?;
    Ok(file)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let no_link = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    options.read(true).write(true).custom_flags(no_link.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_a_folder_and_a_link_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [link, inside] = ["link", "inside"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        std::fs::create_dir(&inside).unwrap();
        for path in [&link, &inside, Path::new("/dev/full")] {
            let error = new_file(path, b"new").unwrap_err();
            assert!(error.to_string().ends_with("exists and is no regular file"), "{error}");
        }
        assert!(link.is_symlink() && inside.is_dir());
        let file = folder.path().join("file");
        std::fs::write(&file, "old").unwrap();
        new_file(&file, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
    }
}
