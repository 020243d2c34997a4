//! Drivers that Debian's kernels leave out, built from Debian's source of the
//! same kernel, by the compiler and the headers of a system in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::base::Workshop;
use crate::modules::Modules;
use crate::outcome::{Failure, Unavailable};
use crate::packages::{self, Kernel};
use crate::table::Driver;
use crate::{moved, systems, tools};

/// Builds in a tree: objtool of Linux 7 needs /proc.
const BUILD: &str = "mount -t proc proc \"$0/proc\" && \
    exec chroot \"$0\" make -s -C /usr/src/linux-headers-\"$1\" M=/drivers/\"$2\" modules";

/// Modules of a kernel and those they need, drivers among them, in the order to
/// load them.
pub(crate) fn modules(
    workshop: &Workshop,
    kernel: &Kernel,
    names: &[&str],
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut all = Modules::below(&kernel.modules);
    for name in names.iter().filter(|name| workshop.table.drivers.contains_key(**name)) {
        all.add(name, module(workshop, name, kernel)?);
    }
    Ok(all.with_dependencies(names)?)
}

/// The module of a driver for a kernel, built when it is not in the cache.
fn module(workshop: &Workshop, name: &str, kernel: &Kernel) -> Result<PathBuf, Failure> {
    let driver = workshop.table.drivers.get(name);
    let driver =
        driver.ok_or_else(|| format!("validation/machines/machines.toml has no driver {name}"))?;
    let version = kernel.modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let kept = workshop.cache.join("drivers").join(&version);
    let cannot = |error: std::io::Error| format!("{}: {error}", kept.display());
    fs::create_dir_all(&kept).map_err(cannot)?;
    systems::made_once(&kept, &format!("{name}.ko"), |part| {
        build(workshop, (name, driver), &version, part)
    })
}

/// Builds a driver's module for a version of the kernel.
fn build(
    workshop: &Workshop,
    (name, driver): (&str, &Driver),
    version: &str,
    module: &Path,
) -> Result<(), Failure> {
    let tree = systems::tree(workshop, &driver.system)?;
    if !tree.join("usr/src").join(format!("linux-headers-{version}")).exists() {
        let why = format!("{} has no headers of Linux {version}", driver.system);
        let remedy = "delete the older of the two from the cache (--cache)";
        return Err(Unavailable::new(why, remedy).into());
    }
    println!("building {name} for Linux {version}");
    let folder = tree.join("drivers").join(name);
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(cannot)?;
    let needs = |why| {
        Unavailable::new(why, "run it as root, and install xz-utils: apt-get install xz-utils")
    };
    if driver.archive.is_empty() {
        let source = format!("{name}.c");
        let ours = tools::root().join("validation/machines/src/base").join(&source);
        fs::copy(ours, folder.join(source)).map_err(cannot)?;
    } else {
        let archive = packages::path(&tree, &driver.archive);
        let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let was = moved::version_of(&driver.archive);
        let part = driver.folder.replacen(was, moved::version_of(&name), 1);
        let depth = part.split('/').count();
        let mut extract = Command::new("tar");
        extract.arg("-xJf").arg(archive).arg("-C").arg(&folder);
        extract.args([format!("--strip-components={depth}"), part]);
        tools::output_of(&mut extract).map_err(needs)?;
    }
    fs::write(folder.join("Makefile"), &driver.makefile).map_err(cannot)?;
    // The mount is gone with its namespace.
    let mut build = Command::new("unshare");
    build.args(["--mount", "sh", "-c", BUILD]).arg(&tree).args([version, name]);
    tools::guarded_output_of(&build).map_err(needs)?;
    fs::copy(folder.join(format!("{name}.ko")), module).map_err(cannot)?;
    Ok(())
}
