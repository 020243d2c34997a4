//! Debian's packages, by dpkg-deb: the trees and the scripts are the same that RPM
//! takes, and no other tool than dpkg's own writes the format.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::stage::{self, Package, zipped};
use super::{Arch, Release, output, text};

/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

const MAINTAINER: &str = "The Parachron authors <parachron@localhost.invalid>";

pub(super) fn build(release: &Release<'_>, arch: &Arch, package: &Package) -> io::Result<()> {
    let name = package.name;
    let folder = release.work.join("deb");
    stage::write(&folder, &package.files)?;
    let documents = folder.join("usr/share/doc").join(name);
    fs::write(documents.join("copyright"), text(release, "packaging/deb/copyright")?)?;
    let date = format!("@{}", release.epoch);
    let date = output(Command::new("date").args(["--utc", "-R", "-d", &date]))?;
    let changes = format!(
        "parachron ({}) unstable; urgency=medium\n\n  * What changed: CHANGELOG.md of the \
         project.\n\n -- {MAINTAINER}  {}\n",
        release.version,
        date.trim()
    );
    fs::write(documents.join("changelog.gz"), zipped(release, changes.as_bytes())?)?;
    let overrides = folder.join("usr/share/lintian/overrides");
    fs::create_dir_all(&overrides)?;
    let these = text(release, format!("packaging/deb/{name}.overrides"))?;
    fs::write(overrides.join(name), these)?;
    let control = folder.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let bytes: usize = package.files.iter().map(|file| file.bytes.len()).sum();
    fs::write(control.join("control"), fields(release, arch, package, bytes / 1024))?;
    let kept = package.files.iter().filter(|file| file.is_configuration());
    let kept: String = kept.map(|file| format!("/{}\n", file.path)).collect();
    if !kept.is_empty() {
        fs::write(control.join("conffiles"), kept)?;
    }
    for script in SCRIPTS {
        let path = format!("packaging/deb/{name}.{script}");
        if let Ok(text) = text(release, &path) {
            fs::write(control.join(script), text)?;
            fs::set_permissions(control.join(script), fs::Permissions::from_mode(0o755))?;
        }
    }
    sums(&folder)?;
    let file = release.out.join(format!("{name}_{}_{}.deb", release.version, arch.debian));
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]).arg(&folder).arg(file);
    output(build.env("SOURCE_DATE_EPOCH", &release.epoch)).map(drop)
}

fn fields(release: &Release<'_>, arch: &Arch, package: &Package, size_kib: usize) -> String {
    let relations = if package.name == "parachrond" {
        "Depends: systemd | systemd-standalone-sysusers | systemd-sysusers, passwd\nRecommends: parachron\nSuggests: chrony, apparmor\n"
    } else {
        "Suggests: parachrond\n"
    };
    let description: String =
        package.description.lines().map(|line| format!(" {line}\n")).collect();
    format!(
        "Package: {}\nSource: parachron\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size_kib}\nSection: admin\nPriority: optional\n{relations}\
         Description: {}\n{description}",
        package.name,
        release.version,
        arch.debian,
        package.summary.to_lowercase(),
    )
}

/// The sums of all files, by which `dpkg --verify` checks them.
fn sums(folder: &std::path::Path) -> io::Result<()> {
    let line = "find . -type f ! -path './DEBIAN/*' -printf '%P\\0' | sort -z | xargs -0 md5sum \
                > DEBIAN/md5sums";
    output(Command::new("sh").args(["-c", line]).current_dir(folder)).map(drop)
}
