//! Whole systems: trees of packages as they are after their installation, made
//! once and kept in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::{Failure, Unavailable};
use crate::packages;
use crate::sources::Archive;
use crate::table::System;
use crate::tools;
use crate::workshop::Workshop;

/// Its mmdebstrap is a script of this system's perl.
const MMDEBSTRAP_SUITE: &str = "bookworm";

/// The folder of all in a cache.
pub(crate) fn folder(cache: &Path) -> Result<PathBuf, Failure> {
    let folder = cache.join("systems");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The tree of a system, made when it is not in the cache.
pub(crate) fn tree(workshop: &Workshop, name: &str) -> Result<PathBuf, Failure> {
    let system = workshop.table.systems.get(name);
    let system =
        system.ok_or_else(|| format!("validation/machines/machines.toml has no system {name}"))?;
    let folder = folder(&workshop.cache)?;
    made_once(&folder, name, |part| {
        println!("making {name} of {}", system.suite);
        bootstrap(workshop, system, part)
    })
}

/// What a folder of the cache has by this name. When it is not there it is made, under another
/// name until it is whole, and by one row at a time: those that start together need the same.
pub(crate) fn made_once(
    folder: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let made = folder.join(name);
    if made.exists() {
        return Ok(made);
    }
    let _alone = packages::alone(folder).map_err(|error| error.to_string())?;
    if !made.exists() {
        let part = folder.join(format!("{name}.part"));
        // Of a run that was ended; a tree or a file.
        let _ = fs::remove_dir_all(&part);
        let _ = fs::remove_file(&part);
        make(&part)?;
        fs::rename(&part, &made).map_err(|error| error.to_string())?;
    }
    Ok(made)
}

/// Installs packages into a tree, which takes root.
fn bootstrap(workshop: &Workshop, system: &System, tree: &Path) -> Result<(), Failure> {
    let suite = workshop.table.suites.get(&system.suite).and_then(|suites| suites.first());
    let suite = suite.ok_or_else(|| {
        format!("validation/machines/machines.toml has no suite {}", system.suite)
    })?;
    let archive = Archive::read(&workshop.apt);
    let address = archive.address(suite)?;
    let packages = workshop.suite(&system.suite)?.current(&system.packages)?;
    let package = workshop.suite(MMDEBSTRAP_SUITE)?.unpacked("mmdebstrap")?;
    let mut command = Command::new("perl");
    command
        .arg(package.join("usr/bin/mmdebstrap"))
        .args(["--quiet", "--variant=minbase", "--aptopt=APT::Sandbox::User \"root\""])
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--keyring={}", crate::packages::KEYRING))
        .arg(format!("--include={}", packages.join(",")))
        .arg(suite)
        .arg(tree)
        .arg(address);
    let needs = |why| Unavailable::new(why, "run it as root, while Debian's archive is reachable");
    Ok(tools::guarded_output_of(&command).map(drop).map_err(needs)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_two_rows_need_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // What a run that was ended left.
        fs::create_dir(folder.join("disk.part")).unwrap();
        let makers = AtomicU32::new(0);
        let make = |part: &Path| {
            makers.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
            fs::write(part, "whole").map_err(|error| error.to_string().into())
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| made_once(folder, "disk", make).map_err(drop).unwrap());
            }
        });
        assert_eq!(makers.into_inner(), 1);
        assert_eq!(fs::read_to_string(folder.join("disk")).unwrap(), "whole");
    }
}
