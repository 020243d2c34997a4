//! Kernel modules with those that they need, by kmod; and drivers that Debian's kernels leave out,
//! built from Debian's source of the same kernel, by the compiler and the headers of a system in
//! the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::base::Workshop;
use crate::outcome::{Failure, Result, Unavailable};
use crate::table::Driver;
use crate::tools;
use crate::trees::{self, Kernel};

/// Linux' source, as its package begins to name it.
const SOURCE: &str = "linux-source-";

/// Builds in a tree: objtool of Linux 7 needs /proc.
const BUILD: &str = "mount -t proc proc \"$0/proc\" && \
    exec chroot \"$0\" make -s -C /usr/src/linux-headers-\"$1\" M=/drivers/\"$2\" modules";

/// Modules of a kernel and those they need, drivers among them, in the order to load them: each
/// name in the kernel, and the bytes.
pub(crate) fn modules(
    workshop: &Workshop,
    kernel: &Kernel,
    names: &[&str],
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in names {
        let mut found = Vec::new();
        if workshop.table.drivers.contains_key(*name) {
            let path = module(workshop, name, kernel)?;
            let needs = kmod("modinfo", |modinfo| modinfo.args(["-F", "depends"]).arg(&path))?;
            for need in needs.trim().split(',').filter(|need| !need.is_empty()) {
                found.extend(with_dependencies(kernel, need)?);
            }
            found.push(path);
        } else {
            found = with_dependencies(kernel, name)?;
        }
        found.retain(|path| !paths.contains(path));
        paths.extend(found);
    }
    let contents = paths.iter().map(|path| Ok((name(path), contents(path)?)));
    contents.collect()
}

/// The files of a module and of those it needs, in the order to load them; none of what is built
/// in.
fn with_dependencies(kernel: &Kernel, name: &str) -> Result<Vec<PathBuf>, Failure> {
    let (version, base) = (kernel.version(), kernel.modules.ancestors().nth(3));
    let base = base.unwrap_or(&kernel.modules);
    if !kernel.modules.join("modules.dep").exists() {
        kmod("depmod", |depmod| depmod.arg("-b").arg(base).arg(&version))?;
    }
    let listed = kmod("modprobe", |modprobe| {
        modprobe.arg("-d").arg(base).args(["-S", &version, "--show-depends", name])
    })?;
    let paths = listed.lines().filter_map(|line| line.strip_prefix("insmod "));
    Ok(paths.map(|path| PathBuf::from(path.trim())).collect())
}

fn kmod(
    program: &str,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<String, Failure> {
    let found = tools::find_program(program).unwrap_or(program.into());
    let output = tools::output_of(arguments(&mut Command::new(found)));
    Ok(output.map_err(|why| Unavailable::new(why, "install kmod: apt-get install kmod"))?)
}

/// A module's name in the kernel: `kvm-amd.ko.xz` is `kvm_amd`.
fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().replace('-', "_")
}

/// A module's bytes; newer packages compress them.
fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.extension().is_none_or(|extension| extension != "xz") {
        return Ok(fs::read(path).map_err(cannot)?);
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().map_err(cannot)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(output.stdout) } else { Err(errors.into()) }
}

/// The module of a driver for a kernel, built when it is not in the cache.
fn module(workshop: &Workshop, name: &str, kernel: &Kernel) -> Result<PathBuf, Failure> {
    let driver = workshop.table.drivers.get(name);
    let driver =
        driver.ok_or_else(|| format!("validation/machines/machines.toml has no driver {name}"))?;
    let version = kernel.version();
    let kept = workshop.folder(&format!("drivers/{version}"))?;
    trees::made_once(&kept, &format!("{name}.ko"), |part| {
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
    let tree = workshop.system(&driver.system)?;
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
    if driver.folder.is_empty() {
        let source = format!("{name}.c");
        let ours = tools::root().join("validation/machines/src/base").join(&source);
        fs::copy(ours, folder.join(source)).map_err(cannot)?;
    } else {
        let archive = trees::first_below(&tree.join("usr/src"), SOURCE);
        let archive = archive.ok_or_else(|| format!("no {SOURCE}* in {}", driver.system))?;
        // Below the folder of the version.
        let depth = driver.folder.split('/').count() + 1;
        let mut extract = Command::new("tar");
        extract.arg("-xJf").arg(archive).arg("-C").arg(&folder);
        extract.args([format!("--strip-components={depth}"), "--wildcards".to_owned()]);
        extract.arg(format!("*/{}/*", driver.folder));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_its_name_of_the_kernel() {
        for path in ["/a/kvm-amd.ko.xz", "kvm_amd.ko"] {
            assert_eq!(name(Path::new(path)), "kvm_amd", "{path}");
        }
    }
}
