//! `cargo xtask release`: all that is published, in one folder: the programs,
//! Debian's and RPM packages, an OCI image, the list of what is inside with its
//! licences, and checksums. Nothing in it tells where or when it was built.

mod again;
mod deb;
mod image;
mod inside;
mod programs;
mod rpm;
mod stage;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::check;
use crate::outside::{self, Outcome};
use crate::project::Project;

/// The programs.
const PROGRAMS: [&str; 2] = ["parachron", "parachrond"];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it goes [default: target/packages]; emptied first
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Take the programs from FOLDER/TARGET, and build none
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Only for this processor; may be repeated [default: all]
    #[arg(long = "arch", value_name = "ARCH")]
    only: Vec<String>,
    /// Run lintian and rpmlint, and package every crate as for publishing
    #[arg(long)]
    check: bool,
    /// Make all a second time, in another folder, and compare the bytes; of given programs,
    /// what is made of them
    #[arg(long)]
    twice: bool,
}

/// A processor, by its names.
#[derive(Debug, Clone, Copy)]
struct Arch {
    /// Rust's target.
    target: &'static str,
    debian: &'static str,
    rpm: &'static str,
}

const ARCHS: [Arch; 2] = [
    Arch { target: "x86_64-unknown-linux-musl", debian: "amd64", rpm: "x86_64" },
    Arch { target: "aarch64-unknown-linux-musl", debian: "arm64", rpm: "aarch64" },
];

/// What all parts of a release are made from.
struct Release<'a> {
    project: &'a Project,
    version: String,
    /// The commit's time, s since 1970: the one time in a release.
    epoch: String,
    out: PathBuf,
    /// For what does not go out.
    work: PathBuf,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    match release(project, args) {
        Ok(listing) => {
            print!("{listing}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("release: {error}");
            ExitCode::FAILURE
        }
    }
}

fn release(project: &Project, args: &Args) -> io::Result<String> {
    let out = args.out.clone().unwrap_or_else(|| project.target_folder().join("packages"));
    let work = project.target_folder().join("release-work");
    for folder in [&out, &work] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    // Archives hold the modes of folders.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let git = ["log", "-1", "--format=%ct"];
    let epoch = output(Command::new("git").args(git).current_dir(project.root()))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let release = Release { project, version, epoch: epoch.trim().to_owned(), out, work };
    make(&release, args)?;
    let mut listing = listing(&release.out)?;
    if args.check {
        listing += &checked(&release)?;
    }
    if args.twice {
        listing += &again::compare(&release, args)?;
    }
    Ok(listing)
}

/// All of its folder.
fn make(release: &Release<'_>, args: &Args) -> io::Result<()> {
    let wanted =
        |arch: &&Arch| args.only.is_empty() || args.only.iter().any(|one| one == arch.debian);
    let mut all = Vec::new();
    for arch in ARCHS.iter().filter(wanted) {
        let folder = match &args.programs {
            Some(folder) => folder.join(arch.target),
            None => programs::build(release.project, arch)?,
        };
        all.push((*arch, folder));
    }
    let host = all.iter().find(|(arch, _)| arch.target.starts_with(std::env::consts::ARCH));
    let (_, host) = host.ok_or_else(|| io::Error::other("manual pages need this processor's"))?;
    for (arch, folder) in &all {
        let inside = inside::of(release, arch)?;
        programs::publish(&release.version, arch, folder, &release.out)?;
        for package in stage::packages(release, folder, &host.join(PROGRAMS[0]), &inside)? {
            deb::build(release, arch, &package)?;
            rpm::build(release, arch, &package)?;
        }
    }
    image::build(release, &all)?;
    checksums(release)
}

/// Writes the checksums.
fn checksums(release: &Release<'_>) -> io::Result<()> {
    let mut sum = Command::new("sha256sum");
    let sums = output(sum.args(names(&release.out)?).current_dir(&release.out))?;
    fs::write(release.out.join("SHA256SUMS"), sums)
}

/// The files of a folder, with their sizes.
fn listing(folder: &Path) -> io::Result<String> {
    let size = |name: &String| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    Ok(names(folder)?.iter().map(|name| format!("{:>10}  {name}\n", size(name))).collect())
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let mut names = fs::read_dir(folder)?.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// What Debian and RPM say of the packages, and cargo of the crates.
fn checked(release: &Release<'_>) -> io::Result<String> {
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
    let mut parser = Command::new("apparmor_parser");
    if outside::is_available(parser.arg("--version")) {
        // Compiled, not loaded: the machine that builds may have no AppArmor.
        let profile = release.project.path("packaging/usr.bin.parachrond");
        let parse = ["--skip-kernel-load", "--skip-cache", "--skip-read-cache"];
        output(Command::new("apparmor_parser").args(parse).arg(profile))?;
    } else {
        said += "skipped: no apparmor_parser\n";
    }
    if let Outcome::Failed(why) = check::package(release.project) {
        return Err(io::Error::other(why));
    }
    Ok(said + "every crate that is published can be packaged\n")
}

/// What a command prints; its errors, where it fails.
fn output(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| io::Error::other(format!("cannot run {program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("{program} failed: {}", String::from_utf8_lossy(&said))))
}

/// A file's text.
fn text(release: &Release<'_>, path: impl AsRef<Path>) -> io::Result<String> {
    let path = release.project.root().join(path);
    fs::read_to_string(&path)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}
