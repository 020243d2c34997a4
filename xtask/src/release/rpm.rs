//! RPM packages, by rpmbuild, of the same trees as Debian's.

use std::fs;
use std::io;
use std::process::Command;

use super::stage::{self, Package};
use super::{Arch, Release, output, text};

pub(super) fn build(release: &Release<'_>, arch: &Arch, package: &Package) -> io::Result<()> {
    let folder = release.work.join("rpm");
    stage::write(&folder.join("tree"), &package.files)?;
    let scripts = text(release, format!("packaging/rpm/{}.scripts", package.name));
    let files: String = package
        .files
        .iter()
        .map(|file| {
            let kind = match file.path.as_str() {
                _ if file.is_configuration() => "%config(noreplace) ",
                path if path.contains("/licences.") => "%license ",
                path if path.starts_with("usr/share/doc/") || path.contains("/man/") => "%doc ",
                _ => "",
            };
            format!("%attr({:o},root,root) {kind}/{}\n", file.mode, file.path)
        })
        .collect();
    // A folder that no package owns would stay.
    let mut files = files + &format!("%dir /usr/share/doc/{}\n", package.name);
    if package.files.iter().any(|file| file.path.starts_with("etc/parachron/")) {
        files += "%dir /etc/parachron\n";
    }
    let epoch = format!("@{}", release.epoch);
    let date = output(Command::new("date").env("LC_ALL", "C").args([
        "--utc",
        "-d",
        &epoch,
        "+%a %b %d %Y",
    ]))?;
    let spec = format!(
        "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: {summary}\n\
         License: MIT OR Apache-2.0\nGroup: System/Base\nPackager: The Parachron authors\n\
         AutoReqProv: no\n{requires}\n%description\n{description}\n\n\
         %install\ncp -a {tree}/. %{{buildroot}}/\n\n{scripts}\n%files\n{files}\n\
         %changelog\n* {date} The Parachron authors <parachron@localhost.invalid> - {version}-1\n\
         - What changed: CHANGELOG.md of the project.\n",
        date = date.trim(),
        name = package.name,
        version = release.version,
        summary = package.summary,
        requires = if scripts.is_ok() { "Requires: systemd\n" } else { "" },
        description = package.description,
        tree = folder.join("tree").display(),
        scripts = scripts.unwrap_or_default(),
    );
    let file = folder.join("package.spec");
    fs::write(&file, spec)?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", &format!("{}-linux", arch.rpm)]);
    for define in [
        format!("_topdir {}", folder.join("top").display()),
        format!("_rpmdir {}", release.out.display()),
        "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned(),
        "_buildhost localhost".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        // The programs are finished: nothing strips them, or looks into them.
        "__os_install_post %{nil}".to_owned(),
        "debug_package %{nil}".to_owned(),
        "_build_id_links none".to_owned(),
        "_binary_payload w6.xzdio".to_owned(),
    ] {
        build.args(["--define", &define]);
    }
    output(build.arg(&file).env("SOURCE_DATE_EPOCH", &release.epoch)).map(drop)
}
