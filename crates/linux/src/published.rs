//! Files that this process publishes, for others to map.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// World-readable, and only ours to write.
const MODE: u32 = 0o644;

/// The file that is there, to be written on, as others have it mapped: what we
/// publish, nobody else may change.
pub(crate) fn file(path: &Path) -> io::Result<File> {
    let file = options().open(path)?;
    let metadata = file.metadata()?;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
        && metadata.mode() & 0o777 == MODE;
    if metadata.is_file() && is_ours { Ok(file) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// A new file in the place of whatever is there, world-readable: complete before it
/// has its name, so that nobody finds half of it.
pub(crate) fn new_file(path: &Path, content: &[u8]) -> io::Result<File> {
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
