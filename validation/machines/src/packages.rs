//! Debian's packages: downloaded and verified by apt, unpacked in the cache;
//! none is installed. Each suite has apt lists of its own there, so that this
//! system's apt is not touched. What is unpacked is used again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::moved;
use crate::outcome::Unavailable;
use crate::sources::Archive;
use crate::table::ARM64;
use crate::tools::{guarded_output_of, output_of};
use crate::workshop::Workshop;

/// Signs Debian's archive; of the package debian-archive-keyring.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Lists younger than this are not fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Ends the name of an incomplete folder.
const PART: &str = ".part";

const LOCK: &str = ".lock";

/// Its age is that of a suite's lists.
const UPDATED: &str = "updated";

/// Whoever makes a folder complete waits for the others that do so: rows, and runs, that are
/// made ready side by side need the same. Until it is dropped.
pub(crate) fn alone(folder: &Path) -> io::Result<File> {
    locked(&folder.join(LOCK))
}

/// The same by a file of any name.
pub(crate) fn locked(file: &Path) -> io::Result<File> {
    let file = File::create(file)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The packages of a suite.
#[derive(Debug)]
pub(crate) struct Suite {
    name: String,
    /// apt's lists and settings.
    apt: PathBuf,
    /// Unpacked packages, each in a folder of its name.
    packages: PathBuf,
}

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
}

impl Suite {
    /// A suite of the table; its lists are fetched if they are old.
    pub(crate) fn open(workshop: &Workshop, name: &str) -> Result<Self, Unavailable> {
        let suites = workshop.table.suites.get(name).map_or(&[][..], Vec::as_slice);
        let suite = Self {
            name: name.to_owned(),
            apt: workshop.cache.join("apt").join(name),
            packages: workshop.cache.join("packages").join(name),
        };
        let lines = suite.lines(suites, &Archive::read(&workshop.apt))?;
        let _alone = suite.prepare(lines.as_deref()).map_err(|error| {
            let why = format!("cannot prepare {}: {error}", suite.apt.display());
            Unavailable::new(why, "check its permissions and free space, or use --cache FOLDER")
        })?;
        let updated = suite.apt.join(UPDATED);
        let age = fs::metadata(&updated).and_then(|data| data.modified()).ok();
        let is_fresh = age.and_then(|at| at.elapsed().ok()).is_some_and(|age| age < FRESH);
        if !is_fresh {
            match guarded_output_of(suite.apt("apt-get").args(["--quiet", "update"])) {
                Ok(_) => drop(fs::write(&updated, "")),
                // Older lists serve as well.
                Err(_) if updated.exists() => {}
                Err(why) => return Err(Unavailable::new(why, suite.remedy())),
            }
        }
        Ok(suite)
    }

    /// The content of its sources.list: of several suites those whose address is known. None
    /// where the first one's is not, and lists of it are here.
    fn lines(&self, suites: &[String], archive: &Archive) -> Result<Option<String>, Unavailable> {
        let mut lines = String::new();
        for (nth, suite) in suites.iter().enumerate() {
            match archive.address(suite) {
                Ok(address) => {
                    let _ = writeln!(lines, "deb [signed-by={KEYRING}] {address} {suite} main");
                }
                Err(_) if nth > 0 => {}
                Err(_) if self.apt.join(UPDATED).exists() => return Ok(None),
                Err(unavailable) => return Err(unavailable),
            }
        }
        Ok(Some(lines))
    }

    /// Its folders and settings; alone until the result is dropped.
    fn prepare(&self, sources: Option<&str>) -> io::Result<File> {
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(self.apt.join(folder))?;
        }
        fs::create_dir_all(&self.packages)?;
        let alone = alone(&self.apt)?;
        // Written once: apt for another machine may be reading them.
        for (name, text) in [("sources.list", sources), ("status", Some(""))] {
            let (Some(text), file) = (text, self.apt.join(name)) else { continue };
            match fs::read_to_string(&file) {
                Ok(known) if known == text => continue,
                // The lists are another address's.
                Ok(_) => drop(fs::remove_file(self.apt.join(UPDATED))),
                Err(_) => {}
            }
            fs::write(&file, text)?;
        }
        Ok(alone)
    }

    /// apt with this suite alone. The unstable suite's mirror may stand still
    /// for longer than its lists are valid; their signatures are verified.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |name: &str| self.apt.join(name).display().to_string();
        for option in [
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::Cache={}", path("")),
            "Acquire::Check-Valid-Until=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            format!("APT::Architecture={}", self.architecture()),
            // Its own user cannot write here.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }

    /// Debian's name of the processor: the end of the suite's name says arm64.
    fn architecture(&self) -> &'static str {
        if self.name.ends_with(ARM64) { "arm64" } else { "amd64" }
    }

    fn remedy(&self) -> String {
        format!("run it while Debian's archive is reachable (suite {})", self.name)
    }

    /// The names of packages as the suite has them now: of one that is gone that of its newest
    /// version, which is reported.
    pub(crate) fn current(&self, packages: &[String]) -> Result<Vec<String>, Unavailable> {
        if packages.iter().all(|name| moved::version_of(name) == name) {
            return Ok(packages.to_vec());
        }
        let listed = output_of(self.apt("apt-cache").arg("pkgnames"));
        let listed = listed.map_err(|why| Unavailable::new(why, self.remedy()))?;
        let all: BTreeSet<&str> = listed.lines().collect();
        Ok(packages.iter().map(|name| self.current_name(name, &all)).collect())
    }

    fn current_name(&self, name: &str, all: &BTreeSet<&str>) -> String {
        let newest = moved::newest(name, all.iter().copied());
        match newest.filter(|_| !all.contains(name)) {
            Some(newest) => {
                let what = format!("package {name} of {}", self.name);
                moved::report(&what, moved::version_of(name), moved::version_of(newest));
                newest.to_owned()
            }
            None => name.to_owned(),
        }
    }

    /// The newest kernel.
    pub(crate) fn kernel(&self) -> Result<Kernel, Unavailable> {
        let mut names = self.dependencies(&format!("linux-image-{}", self.architecture()))?;
        // Newer kernels are split: image and modules are packages of their own.
        let parts = ["linux-image-", "linux-binary-", "linux-modules-"];
        let part = |name: &String| {
            let version = parts.iter().find_map(|part| name.strip_prefix(part));
            version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
        };
        names.retain(part);
        let folders = names.iter().map(|name| self.unpacked(name));
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        let versions: Vec<PathBuf> = folders
            .iter()
            .flat_map(|folder| ["lib/modules", "usr/lib/modules"].map(|name| folder.join(name)))
            .filter_map(|modules| first_below(&modules, ""))
            .collect();
        let boot = folders.iter().find_map(|folder| first_below(&folder.join("boot"), "vmlinuz-"));
        let beside = || versions.iter().map(|one| one.join("vmlinuz")).find(|path| path.is_file());
        let image = boot.or_else(beside);
        let modules = versions.iter().find(|one| one.join("kernel").is_dir()).cloned();
        image.zip(modules).map(|(image, modules)| Kernel { image, modules }).ok_or_else(|| {
            let why = format!("no kernel or no modules in {}", names.join(", "));
            Unavailable::new(why, self.remedy())
        })
    }

    /// All packages that one depends on, and itself.
    fn dependencies(&self, package: &str) -> Result<Vec<String>, Unavailable> {
        let no = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
        let mut command = self.apt("apt-cache");
        command.args(["depends", "--recurse"]).args(no.map(|kind| format!("--no-{kind}")));
        let listed = output_of(command.arg(package));
        let listed = listed.map_err(|why| Unavailable::new(why, self.remedy()))?;
        let is_name = |line: &&str| !line.starts_with([' ', '<', '|']);
        Ok(listed.lines().filter(is_name).map(str::to_owned).collect())
    }

    /// The folder of an unpacked package.
    pub(crate) fn unpacked(&self, package: &str) -> Result<PathBuf, Unavailable> {
        let folder = self.packages.join(package);
        if !folder.exists() {
            self.fetch(package, &folder)?;
        }
        Ok(folder)
    }

    /// Several packages unpacked into one tree.
    pub(crate) fn tree(&self, name: &str, packages: &[String]) -> Result<PathBuf, Unavailable> {
        let tree = self.packages.join(name);
        if tree.exists() {
            return Ok(tree);
        }
        let packages = self.current(packages)?;
        let folders = packages.iter().map(|package| self.unpacked(package));
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        let no_room = |error: io::Error| Unavailable::new(error.to_string(), "free space: df -h");
        let _alone = alone(&self.packages).map_err(no_room)?;
        if !tree.exists() {
            let part = self.packages.join(format!("{name}{PART}"));
            for folder in folders {
                let mut copy = Command::new("cp");
                copy.args(["-rlPT", "--remove-destination"]).arg(folder).arg(&part);
                output_of(&mut copy).map_err(|why| Unavailable::new(why, "free space: df -h"))?;
            }
            fs::rename(&part, &tree).map_err(no_room)?;
        }
        Ok(tree)
    }

    /// Downloads and unpacks, unless another has meanwhile; the folder gets its name when it
    /// is complete.
    fn fetch(&self, package: &str, folder: &Path) -> Result<(), Unavailable> {
        let part = self.packages.join(format!("{package}{PART}"));
        let cannot = |error: io::Error| {
            Unavailable::new(
                format!("cannot prepare {}: {error}", part.display()),
                "check its permissions and free space: df -h",
            )
        };
        let _alone = alone(&self.packages).map_err(cannot)?;
        if folder.exists() {
            return Ok(());
        }
        println!("fetching {package} of {}", self.name);
        if part.exists() {
            fs::remove_dir_all(&part).map_err(cannot)?;
        }
        fs::create_dir_all(&part).map_err(cannot)?;
        let mut download = self.apt("apt-get");
        download.args(["--quiet", "download", package]).current_dir(&part);
        guarded_output_of(&download).map_err(|why| Unavailable::new(why, self.remedy()))?;
        let archive = fs::read_dir(&part)
            .map_err(cannot)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| {
                Unavailable::new(format!("apt-get downloaded no {package}"), self.remedy())
            })?;
        output_of(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&part)).map_err(
            |why| {
                Unavailable::new(why, "install dpkg (apt-get install dpkg) and free space: df -h")
            },
        )?;
        fs::remove_file(&archive).map_err(cannot)?;
        fs::rename(&part, folder).map_err(cannot)
    }
}

/// A path below a tree, or below its folder that of the newest version.
pub(crate) fn path(tree: &Path, name: &str) -> PathBuf {
    let path = tree.join(name);
    let (Some(folder), Some(file)) = (path.parent(), path.file_name().and_then(|it| it.to_str()))
    else {
        return path;
    };
    if path.exists() {
        return path;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let newest = moved::newest(file, names.iter().map(String::as_str));
    newest.map(|newest| folder.join(newest)).unwrap_or(path)
}

/// A file of a folder whose name begins with `beginning`.
fn first_below(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut found = entries.filter(|e| e.file_name().to_string_lossy().starts_with(beginning));
    found.next().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(folder: &Path) -> Suite {
        let (apt, packages) = (folder.join("apt"), folder.join("packages"));
        Suite { name: "bookworm".into(), apt, packages }
    }

    #[test]
    fn lists_of_another_address_are_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let suite = suite(folder.path());
        drop(suite.prepare(Some("deb file:/a bookworm main\n")).unwrap());
        let updated = suite.apt.join(UPDATED);
        fs::write(&updated, "").unwrap();
        drop(suite.prepare(Some("deb file:/a bookworm main\n")).unwrap());
        assert!(updated.exists(), "the same address");
        drop(suite.prepare(None).unwrap());
        assert!(updated.exists(), "no address, and the lists are here");
        drop(suite.prepare(Some("deb file:/b bookworm main\n")).unwrap());
        assert!(!updated.exists());
    }

    #[test]
    fn without_an_address_the_lists_that_are_here_serve() {
        let folder = tempfile::tempdir().unwrap();
        let (suite, none) = (suite(folder.path()), Archive::default());
        assert!(suite.lines(&["bookworm".into()], &none).is_err());
        fs::create_dir(&suite.apt).unwrap();
        fs::write(suite.apt.join(UPDATED), "").unwrap();
        assert_eq!(suite.lines(&["bookworm".into()], &none), Ok(None));
    }

    #[test]
    fn a_package_or_a_path_of_an_older_version_is_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let all = BTreeSet::from(["linux-source-7.4", "xen-hypervisor-4.17-amd64", "gcc"]);
        let current = |name| suite(folder.path()).current_name(name, &all);
        assert_eq!(current("linux-source-7.2"), "linux-source-7.4");
        assert_eq!(current("xen-hypervisor-4.17-amd64"), "xen-hypervisor-4.17-amd64");
        assert_eq!(current("make-1.0"), "make-1.0", "apt says that it is not there");
        fs::write(folder.path().join("xen-4.20-amd64.gz"), "").unwrap();
        let path = |name| path(folder.path(), name).strip_prefix(folder.path()).unwrap().to_owned();
        assert_eq!(path("xen-4.17-amd64.gz"), Path::new("xen-4.20-amd64.gz"));
        assert_eq!(path("other/xen-4.17"), Path::new("other/xen-4.17"));
    }

    #[test]
    fn one_at_a_time_completes_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = alone(folder.path()).unwrap();
        let other = File::open(folder.path().join(LOCK)).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(first);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
}
