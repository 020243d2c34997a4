//! Whole systems: trees of packages as they are after their installation, made
//! once and kept in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::{Failure, Unavailable};
use crate::packages::Suite;
use crate::table::{System, Table};
use crate::tools;

/// Its mmdebstrap is a script of this system's perl.
const MMDEBSTRAP_SUITE: &str = "bookworm";

/// The folder of all in a cache.
pub(crate) fn folder(cache: &Path) -> Result<PathBuf, Failure> {
    let folder = cache.join("systems");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The tree of a system, made when it is not in the cache.
pub(crate) fn tree(table: &Table, cache: &Path, name: &str) -> Result<PathBuf, Failure> {
    let system = table.systems.get(name);
    let system = system.ok_or_else(|| format!("zoo/machines.toml has no system {name}"))?;
    let folder = folder(cache)?;
    let tree = folder.join(name);
    if !tree.exists() {
        println!("making {name} of {}", system.suite);
        let part = folder.join(format!("{name}.part"));
        let _ = fs::remove_dir_all(&part);
        bootstrap((table, cache), system, &part)?;
        fs::rename(&part, &tree).map_err(|error| error.to_string())?;
    }
    Ok(tree)
}

/// Installs packages into a tree, which takes root.
fn bootstrap((table, cache): (&Table, &Path), system: &System, tree: &Path) -> Result<(), Failure> {
    let address = table.suites.get(&system.suite).and_then(|suite| suite.first());
    let address = address.and_then(|suite| suite.split_once(' '));
    let (address, suite) =
        address.ok_or_else(|| format!("zoo/machines.toml has no suite {}", system.suite))?;
    let package = Suite::open(cache, table, MMDEBSTRAP_SUITE)?.unpacked("mmdebstrap")?;
    let mut command = Command::new("perl");
    command
        .arg(package.join("usr/bin/mmdebstrap"))
        .args(["--quiet", "--variant=minbase", "--aptopt=APT::Sandbox::User \"root\""])
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--keyring={}", crate::packages::KEYRING))
        .arg(format!("--include={}", system.packages.join(",")))
        .arg(suite)
        .arg(tree)
        .arg(address);
    let needs = |why| Unavailable::new(why, "run as root, with Debian's archive reachable");
    Ok(tools::output_of(&mut command).map(drop).map_err(needs)?)
}
