//! Trees of Debian's packages, made once by mmdebstrap, which verifies them by Debian's keyring,
//! and kept in the cache: packages with what they need, unpacked and not installed, and whole
//! systems. A newer kernel comes once the tree is deleted there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::base::Workshop;
use crate::outcome::{Failure, Result, Unavailable};
use crate::table::ARM64;
use crate::tools::{guarded_output_of, output_of};

/// Signs Debian's archive; of the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What is said to apt. The unstable suite's mirror may stand still for longer than its lists are
/// valid; their signatures are verified. Its own user cannot write here.
const APT: [&str; 3] = [
    "APT::Sandbox::User \"root\"",
    "Acquire::Check-Valid-Until \"false\"",
    "Acquire::Languages \"none\"",
];

const REMEDY: &str = "install mmdebstrap (apt-get install mmdebstrap), and run it as root, while \
    Debian's archive is reachable";

/// Ends the suites of the security archive, which has an address of its own.
const SECURITY: &str = "-security";

/// The releases whose names Debian's suites begin with, or are.
const RELEASES: [&str; 9] =
    ["bullseye", "bookworm", "trixie", "forky", "duke", "sid", "stable", "testing", "unstable"];

/// Prints a line for each source of this system's apt.
const SOURCES: [&str; 4] =
    ["indextargets", "--format", "$(COMPONENT) $(RELEASE) $(REPO_URI)", "Created-By: Packages"];

/// A kernel, unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// The image to boot.
    pub(crate) image: PathBuf,
    /// The folder of its modules, `…/lib/modules/VERSION`.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// As its modules' folder is named: `6.1.0-39-amd64`.
    pub(crate) fn version(&self) -> String {
        self.modules.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The kernel of a tree. Newer packages have the image beside the modules.
    fn find(tree: &Path) -> Option<Self> {
        let folders = ["lib/modules", "usr/lib/modules"].map(|name| tree.join(name));
        let modules = folders.iter().find_map(|folder| {
            first_below(folder, "").filter(|version| version.join("kernel").is_dir())
        })?;
        let beside = folders.iter().filter_map(|folder| first_below(folder, ""));
        let beside = beside.map(|version| version.join("vmlinuz")).find(|path| path.is_file());
        Some(Self { image: first_below(&tree.join("boot"), "vmlinuz-").or(beside)?, modules })
    }
}

impl Workshop {
    /// A kernel of the table.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        let suite = self.suite_of_kernel(name)?;
        let package = format!("linux-image-{}", architecture(suite));
        let tree = self.unpacked(suite, &format!("linux-{name}"), &[&package])?;
        let kernel = Kernel::find(&tree);
        Ok(kernel.ok_or_else(|| format!("no kernel or no modules in {}", tree.display()))?)
    }

    pub(crate) fn suite_of_kernel(&self, name: &str) -> Result<&str> {
        let suite = self.table.kernels.get(name).map(String::as_str);
        suite.ok_or_else(|| format!("validation/machines/machines.toml has no kernel {name}"))
    }

    /// Packages of a suite and those that they need, unpacked.
    pub(crate) fn unpacked(
        &self,
        suite: &str,
        name: &str,
        packages: &[&str],
    ) -> Result<PathBuf, Failure> {
        self.tree(suite, name, "extract", packages)
    }

    /// The tree of a system of the table.
    pub(crate) fn system(&self, name: &str) -> Result<PathBuf, Failure> {
        let system = self.table.systems.get(name);
        let system = system
            .ok_or_else(|| format!("validation/machines/machines.toml has no system {name}"))?;
        let packages: Vec<&str> = system.packages.iter().map(String::as_str).collect();
        self.tree(&system.suite, name, "minbase", &packages)
    }

    fn tree(
        &self,
        suite: &str,
        name: &str,
        variant: &str,
        packages: &[&str],
    ) -> Result<PathBuf, Failure> {
        made_once(&self.folder("trees")?, name, |tree| {
            let suites = self.table.suites.get(suite).map_or(&[][..], Vec::as_slice);
            let first = suites.first().ok_or_else(|| format!("there is no suite {suite}"))?;
            println!("making {name} of {suite}");
            let mut command = Command::new("mmdebstrap");
            command.args(["--quiet", &format!("--variant={variant}")]);
            command.arg(format!("--architectures={}", architecture(suite)));
            command.args(APT.map(|option| format!("--aptopt={option}")));
            // Of backports too, which apt takes for nothing else.
            command.arg(format!("--aptopt=APT::Default-Release \"{first}\""));
            command.arg(format!("--keyring={KEYRING}"));
            command.arg(format!("--include={}", packages.join(","))).arg(first).arg(tree);
            for suite in suites {
                command.arg(format!("deb {} {suite} main", address(suite)?));
            }
            let made = guarded_output_of(&command);
            Ok(made.map(drop).map_err(|why| Unavailable::new(why, REMEDY))?)
        })
    }

    /// A folder of the cache.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.cache.join(name);
        fs::create_dir_all(&folder).map_err(|error| {
            let why = format!("cannot prepare {}: {error}", folder.display());
            Unavailable::new(why, "check its permissions and free space, or use --cache FOLDER")
        })?;
        Ok(folder)
    }
}

/// Debian's name of the processor: the end of a suite's name says arm64.
fn architecture(suite: &str) -> &'static str {
    if suite.ends_with(ARM64) { "arm64" } else { "amd64" }
}

/// The address of a suite's archive, by this system's apt: no mirror is named in this repository,
/// and people have mirrors of their own.
fn address(suite: &str) -> Result<String, Unavailable> {
    let remedy = "run it where apt has lists of Debian's archive: apt-get update";
    let listed = output_of(Command::new("apt-get").args(SOURCES));
    let listed = listed.map_err(|why| Unavailable::new(why, remedy))?;
    address_in(&listed, suite.ends_with(SECURITY)).ok_or_else(|| {
        Unavailable::new(format!("apt has no lists of the archive of {suite}"), remedy)
    })
}

/// The first of Debian's main archive, or of its security archive.
fn address_in(listed: &str, is_security: bool) -> Option<String> {
    let sources = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let mut debians = sources.filter(|(component, suite, _)| {
        let release = suite.split(['-', '/']).next().unwrap_or_default();
        *component == "main"
            && RELEASES.contains(&release)
            && (suite.ends_with(SECURITY) || suite.ends_with("/updates")) == is_security
    });
    debians.next().map(|(_, _, address)| address.to_owned())
}

/// What a folder of the cache has by this name. When it is not there it is made, under another
/// name until it is whole, and by one run at a time.
pub(crate) fn made_once(
    folder: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let made = folder.join(name);
    if made.exists() {
        return Ok(made);
    }
    let _alone = locked(&folder.join(".lock")).map_err(|error| error.to_string())?;
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

/// A file that whoever locks it has alone, until it is dropped.
pub(crate) fn locked(file: &Path) -> std::io::Result<File> {
    let file = File::create(file)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// A file of a folder whose name begins with `beginning`.
pub(crate) fn first_below(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut found = entries.filter(|e| e.file_name().to_string_lossy().starts_with(beginning));
    found.next().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_debians_own_archive_is_taken() {
        let listed = "stable bookworm file:/docker\nmain cloud-sdk-bookworm file:/cloud\n\
            main noble file:/ubuntu\nmain bookworm-security file:/security\n\
            main bookworm-updates file:/debian\nmain bookworm file:/other\n";
        assert_eq!(address_in(listed, false).as_deref(), Some("file:/debian"));
        assert_eq!(address_in(listed, true).as_deref(), Some("file:/security"));
        assert_eq!(address_in("main bullseye/updates file:/a\n", true).as_deref(), Some("file:/a"));
        assert_eq!(address_in("main noble file:/ubuntu\n", false), None);
    }

    #[test]
    fn a_kernel_of_one_package_or_of_three_is_found() {
        for (modules, image) in
            [("lib/modules/6.1", "boot/vmlinuz-6.1"), ("usr/lib/modules/7.3", "vmlinuz")]
        {
            let folder = tempfile::tempdir().unwrap();
            let modules = folder.path().join(modules);
            fs::create_dir_all(modules.join("kernel")).unwrap();
            assert!(Kernel::find(folder.path()).is_none(), "no image");
            let old = folder.path().join(image);
            let image = if image == "vmlinuz" { modules.join(image) } else { old };
            fs::create_dir_all(image.parent().unwrap()).unwrap();
            fs::write(&image, "").unwrap();
            let kernel = Kernel::find(folder.path()).unwrap();
            assert_eq!((kernel.image, kernel.modules), (image, modules));
        }
    }

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
