//! The release made a second time, from a copy of the tree in another folder, with other
//! names of Cargo's folders: what differs has something of the machine in it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{Args, Release, make, names};

/// What it comes to; an error names the files that differ.
pub(super) fn compare(first: &Release<'_>, args: &Args) -> io::Result<String> {
    let folder = first.work.join("again");
    let project = first.project.copy(&folder)?;
    let [out, work] = ["out", "work"].map(|name| folder.join(name));
    for folder in [&out, &work] {
        fs::create_dir_all(folder)?;
    }
    let (version, epoch) = (first.version.clone(), first.epoch.clone());
    let second = Release { project: &project, version, epoch, out, work };
    make(&second, args)?;
    let (same, differing) = differences(&first.out, &second.out)?;
    if differing.is_empty() {
        return Ok(format!("built again in another folder: {same} files are the same\n"));
    }
    let differing = differing.join(" ");
    let why = format!("built again in {}, these differ: {differing}", second.out.display());
    Err(io::Error::other(why))
}

/// How many files are the same in two folders, and the names of those that are not.
fn differences(one: &Path, other: &Path) -> io::Result<(usize, Vec<String>)> {
    let mut names: BTreeSet<String> = [names(one)?, names(other)?].concat().into_iter().collect();
    let read = |folder: &Path, name: &str| fs::read(folder.join(name)).ok();
    let all = names.len();
    names.retain(|name| read(one, name).is_none_or(|bytes| read(other, name) != Some(bytes)));
    Ok((all - names.len(), names.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_named() {
        let top = std::env::temp_dir().join(format!("parachron-again-{}", std::process::id()));
        let [one, other] = ["one", "other"].map(|name| top.join(name));
        for (folder, files) in [
            (&one, [("a", "1"), ("b", "1"), ("c", "1")]),
            (&other, [("a", "1"), ("b", "2"), ("d", "1")]),
        ] {
            fs::create_dir_all(folder).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), text).unwrap();
            }
        }
        let found = differences(&one, &other).unwrap();
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(found, (1, ["b", "c", "d"].map(str::to_owned).to_vec()));
    }
}
