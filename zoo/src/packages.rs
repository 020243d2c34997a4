//! Debian packages, downloaded and unpacked in cargo's target folder; none is
//! installed. An unpacked one is used again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Unavailable;
use crate::tools::output_of;

/// The folder in which packages are unpacked, each in a folder of its name.
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

    /// The package of the newest stock kernel: by apt's lists, or without them
    /// the one unpacked last time.
    pub(crate) fn kernel(&self) -> Result<String, Unavailable> {
        const KERNEL: &str = "linux-image-";
        let listed = output_of(Command::new("apt-cache").args(["depends", "linux-image-amd64"]));
        if let Some(name) = listed.as_deref().ok().and_then(first_dependency) {
            return Ok(name.to_owned());
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(KERNEL) && !name.ends_with(PART)).max().ok_or_else(
            || {
                let why = listed.err().unwrap_or_else(|| "apt has no linux-image-amd64".to_owned());
                Unavailable::new(why, "apt-get update, on Debian 12 or later")
            },
        )
    }

    /// Downloads and unpacks; the folder gets its name when it is complete.
    fn fetch(&self, package: &str, folder: &Path) -> Result<(), Unavailable> {
        let part = self.folder.join(format!("{package}{PART}"));
        let cannot = |error: std::io::Error| {
            Unavailable::new(
                format!("cannot prepare {}: {error}", part.display()),
                "check its permissions and the disk",
            )
        };
        if part.exists() {
            fs::remove_dir_all(&part).map_err(cannot)?;
        }
        fs::create_dir_all(&part).map_err(cannot)?;
        let remedy = || "apt-get update, with Debian's archive reachable";
        output_of(
            Command::new("apt-get").args(["--quiet", "download", package]).current_dir(&part),
        )
        .map_err(|why| Unavailable::new(why, remedy()))?;
        let archive = fs::read_dir(&part)
            .map_err(cannot)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| {
                Unavailable::new(format!("apt-get downloaded no {package}"), remedy())
            })?;
        output_of(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&part))
            .map_err(|why| Unavailable::new(why, "apt-get install dpkg"))?;
        fs::remove_file(&archive).map_err(cannot)?;
        fs::rename(&part, folder).map_err(cannot)
    }
}

/// Ends the name of an incomplete folder.
const PART: &str = ".part";

/// The package after the first `Depends:` of `apt-cache depends`.
fn first_dependency(listed: &str) -> Option<&str> {
    listed.lines().find_map(|line| line.trim().strip_prefix("Depends:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_metapackage_depends_on() {
        let listed = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(first_dependency(listed), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(first_dependency("linux-image-amd64\n"), None);
    }
}
