//! `--install`: the packages of this processor on new roots, by the tools of machines that
//! take them. Debian's own life with a real systemd is in `cargo xtask machines`.

mod fresh;
mod life;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Made, Release};

pub(super) fn all(release: &Release<'_>, made: &[Made]) -> io::Result<String> {
    if !rustix::process::geteuid().is_root() {
        return Ok("skipped: packages are installed by root alone\n".to_owned());
    }
    let made = made.iter().find(|made| made.is_host());
    let made = made.ok_or_else(|| io::Error::other("no packages of this processor"))?;
    Ok(life::of_rpm(release, made)? + &fresh::from_deb(release, made)?)
}

/// All below a folder but what `is_left_out` says, sorted, relative to it.
fn below(root: &Path, is_left_out: &dyn Fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
    let (mut folders, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let relative = entry.path().strip_prefix(root).map_err(io::Error::other)?.to_owned();
            if is_left_out(&relative) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            found.push(relative);
        }
    }
    found.sort();
    Ok(found)
}
