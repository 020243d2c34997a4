//! The file with the groups that are frozen, a path a line. It is written before the first
//! of them is frozen and removed after the last is thawed: whoever finds it after a kill,
//! at whichever step, thaws what it lists.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use linux::published::new_file;
use rustix::fs::OFlags;

use super::control_groups::{GroupTree, is_asked_to_freeze, set_frozen};

/// More than any list.
const MOST_BYTES: u64 = 1 << 20;

/// Writes the file as a whole: a reader has the old one or the new one.
///
/// # Errors
/// The folder is full, or read-only.
pub(super) fn write(file: &Path, groups: &[PathBuf]) -> io::Result<()> {
    let mut text = Vec::new();
    for group in groups {
        text.extend_from_slice(group.as_os_str().as_bytes());
        text.push(b'\n');
    }
    new_file(file, &text).map(drop)
}

/// The daemon's user owns the folder, and root reads: no link to elsewhere, nothing that blocks
/// or never ends.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "is not a regular file"));
    }
    let mut text = Vec::new();
    opened.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Thaws what the file lists, and removes it; how many groups that were.
///
/// # Errors
/// A group could not be thawed: the file stays.
pub fn thaw_listed(tree: &GroupTree, file: &Path) -> io::Result<usize> {
    let text = match read(file) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(0),
        Err(why) => return Err(why),
    };
    let groups = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let groups = groups.map(|line| PathBuf::from(std::ffi::OsString::from_vec(line.to_vec())));
    let (mut thawed, mut failed) = (0, None);
    // One that could not be frozen may be one that cannot be written.
    let is_frozen = |group: &PathBuf| !matches!(is_asked_to_freeze(group), Ok(Some(false)));
    for group in groups.filter(|group| tree.contains(group) && is_frozen(group)) {
        match set_frozen(&group, false) {
            Ok(was_there) => thawed += usize::from(was_there),
            Err(why) => {
                failed = Some(io::Error::new(why.kind(), format!("{}: {why}", group.display())))
            }
        }
    }
    if let Some(why) = failed {
        return Err(why);
    }
    match fs::remove_file(file) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
        _ => Ok(thawed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_file_and_no_pipe_or_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("group")).unwrap();
        fs::write(at("group/cgroup.freeze"), "1\n").unwrap();
        let tree = GroupTree::new(folder.path(), "");
        write(&at("list"), &[at("group")]).unwrap();
        std::os::unix::fs::symlink(at("list"), at("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(made.unwrap().success());
        for refused in ["link", "pipe"] {
            assert!(thaw_listed(&tree, &at(refused)).is_err(), "{refused}");
            assert_eq!(fs::read(at("group/cgroup.freeze")).unwrap(), b"1\n");
        }
        assert_eq!(thaw_listed(&tree, &at("list")).unwrap(), 1);
        assert_eq!(fs::read(at("group/cgroup.freeze")).unwrap(), b"0\n");
        // Cut anywhere, it thaws the group or nothing.
        write(&at("list"), &[at("group")]).unwrap();
        let whole = fs::read(at("list")).unwrap();
        for length in 0..=whole.len() {
            fs::write(at("group/cgroup.freeze"), "1\n").unwrap();
            fs::write(at("list"), &whole[..length]).unwrap();
            let thawed = usize::from(length + 1 >= whole.len());
            assert_eq!(thaw_listed(&tree, &at("list")).unwrap(), thawed, "{length}");
            assert!(!at("list").exists());
        }
    }
}
