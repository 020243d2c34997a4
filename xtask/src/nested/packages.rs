//! Debian packages, downloaded and unpacked beside our builds; none is
//! installed. An unpacked one is used again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What stood in the way, and what would clear it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Unavailable {
    pub(crate) fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}

/// Where packages are unpacked, each in a folder of its name.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) folder: PathBuf,
}

impl Packages {
    /// The folder of an unpacked package.
    pub(crate) fn unpacked(&self, package: &str) -> Result<PathBuf, Unavailable> {
        let folder = self.folder.join(package);
        if !folder.exists() {
            self.fetch(package, &folder)?;
        }
        Ok(folder)
    }

    /// The name of the package of the newest stock kernel: by apt's lists, or
    /// without them the one unpacked last time.
    pub(crate) fn kernel(&self) -> Result<String, Unavailable> {
        const KERNEL: &str = "linux-image-";
        let said = run(Command::new("apt-cache").args(["depends", "linux-image-amd64"]));
        if let Some(name) = said.as_deref().ok().and_then(first_dependency) {
            return Ok(name.to_owned());
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(KERNEL) && !name.ends_with(PART)).max().ok_or_else(
            || {
                let why = said.err().unwrap_or_else(|| "apt knows no linux-image-amd64".to_owned());
                Unavailable::new(why, "apt-get update, on Debian 12 or later")
            },
        )
    }

    /// Downloads and unpacks; the folder gets its name when it is whole.
    fn fetch(&self, package: &str, folder: &Path) -> Result<(), Unavailable> {
        let part = self.folder.join(format!("{package}{PART}"));
        let cannot = |error: std::io::Error| {
            Unavailable::new(format!("cannot prepare {}: {error}", part.display()), "mend that")
        };
        if part.exists() {
            fs::remove_dir_all(&part).map_err(cannot)?;
        }
        fs::create_dir_all(&part).map_err(cannot)?;
        let remedy = || "apt-get update, with Debian's archive in reach";
        run(Command::new("apt-get").args(["--quiet", "download", package]).current_dir(&part))
            .map_err(|why| Unavailable::new(why, remedy()))?;
        let archive = fs::read_dir(&part)
            .map_err(cannot)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| Unavailable::new(format!("apt-get brought no {package}"), remedy()))?;
        run(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&part))
            .map_err(|why| Unavailable::new(why, "apt-get install dpkg"))?;
        fs::remove_file(&archive).map_err(cannot)?;
        fs::rename(&part, folder).map_err(cannot)
    }
}

/// Ends the name of a folder that is not whole.
const PART: &str = ".part";

/// The package after the first `Depends:` of `apt-cache depends`.
fn first_dependency(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.trim().strip_prefix("Depends:")).map(str::trim)
}

/// What a command prints; or that it failed, and its last line.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} does not run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} failed ({}): {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_metapackage_depends_on() {
        let said = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(first_dependency(said), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(first_dependency("linux-image-amd64\n"), None);
    }

    #[test]
    fn a_failure_keeps_the_last_line() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        assert_eq!(run(&mut failing).unwrap_err(), "sh failed (exit status: 3): last");
        assert_eq!(run(Command::new("echo").arg("yes")).unwrap(), "yes\n");
    }
}
