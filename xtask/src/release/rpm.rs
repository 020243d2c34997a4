//! RPM packages, by rpmbuild, of the same trees as Debian's.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::stage::{self, File, Package};
use super::{Arch, Release, output, text};

/// Folders that belong to packages which are on every machine: filesystem, systemd.
pub(super) const OTHERS_FOLDERS: [&str; 15] = [
    "",
    "etc",
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/lib/systemd",
    "usr/lib/systemd/system",
    "usr/lib/sysusers.d",
    "usr/lib/udev",
    "usr/lib/udev/rules.d",
    "usr/share",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/man/man1",
    "usr/share/man/man8",
];

/// The files of a package where RPM's systems look for them: vendor-completions is Debian's.
pub(super) fn files(package: &Package) -> Vec<File> {
    let mut files = package.files.clone();
    for file in &mut files {
        file.path = file.path.replace("zsh/vendor-completions/", "zsh/site-functions/");
    }
    files
}

pub(super) fn build(release: &Release<'_>, arch: &Arch, package: &Package) -> io::Result<()> {
    let folder = release.work.join("rpm");
    let tree = files(package);
    stage::write(&folder.join("tree"), &tree)?;
    let scripts = text(release, format!("packaging/rpm/{}.scripts", package.name));
    let files: String = tree
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
    let above = tree.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    let ours = above.filter(|folder| !OTHERS_FOLDERS.iter().any(|it| Path::new(it) == *folder));
    let ours: BTreeSet<String> =
        ours.map(|folder| format!("%dir /{}\n", folder.display())).collect();
    let files = files + &ours.into_iter().collect::<String>();
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
