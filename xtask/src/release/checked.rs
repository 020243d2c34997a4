//! `--check`: a release judged by programs that are not ours: Debian's, RPM's, AppArmor's,
//! those of images, and cargo of the crates.

mod image;

use std::fs;
use std::io;
use std::process::Command;

use super::{Made, Release, output};
use crate::check;
use crate::outside::{self, Outcome};

/// What all say; the first that refuses is an error.
pub(super) fn all(release: &Release<'_>, made: &[Made]) -> io::Result<String> {
    let said = packages(release)? + &apparmor(release)? + &image::check(release, made)?;
    match check::package(release.project) {
        Outcome::Failed(why) => Err(io::Error::other(why)),
        _ => Ok(said + "every crate that is published can be packaged\n"),
    }
}

/// lintian of Debian's packages, rpmlint of RPM's.
fn packages(release: &Release<'_>) -> io::Result<String> {
    let mut said = String::new();
    for name in fs::read_dir(&release.out)? {
        let path = name?.path();
        let mut command = match path.extension().and_then(|extension| extension.to_str()) {
            Some("deb") => Command::new("lintian"),
            Some("rpm") => Command::new("rpmlint"),
            _ => continue,
        };
        if command.get_program() == "lintian" {
            command.args([
                "--fail-on",
                "error,warning",
                "--suppress-tags",
                "bad-distribution-in-changes-file",
            ]);
        } else {
            command
                .args(["--strict", "--config"])
                .arg(release.project.path("packaging/rpm/rpmlint.toml"));
        }
        said += &output(command.arg(&path))?;
    }
    Ok(said)
}

fn apparmor(release: &Release<'_>) -> io::Result<String> {
    if let Some(skipped) = missing("apparmor_parser", "apparmor") {
        return Ok(skipped);
    }
    // Compiled, not loaded: the machine that builds may have no AppArmor.
    let profile = release.project.path("packaging/usr.bin.parachrond");
    let parse = ["--skip-kernel-load", "--skip-cache", "--skip-read-cache"];
    output(Command::new("apparmor_parser").args(parse).arg(profile))?;
    Ok(String::new())
}

/// What is said where a tool is not installed.
pub(super) fn missing(tool: &str, package: &str) -> Option<String> {
    let is_here = outside::is_available(Command::new(tool).arg("--version"));
    (!is_here).then(|| format!("skipped: no {tool}\n  try: apt-get install {package}\n"))
}
