//! The file with the groups that are frozen, a path a line. It is written before the first
//! of them is frozen and removed after the last is thawed: whoever finds it after a kill,
//! at whichever step, thaws what it lists.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::control_groups::{GroupTree, is_asked_to_freeze, set_frozen};

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
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}

/// Thaws what the file lists, and removes it; how many groups that were.
///
/// # Errors
/// A group could not be thawed: the file stays.
pub fn thaw_listed(tree: &GroupTree, file: &Path) -> io::Result<usize> {
    let text = match fs::read(file) {
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
