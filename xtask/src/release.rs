//! `cargo xtask release`: all that is published, in one folder: the programs,
//! Debian's and RPM packages, an OCI image, the list of what is inside with its
//! licences, and checksums. Nothing in it tells where or when it was built.

mod again;
mod checked;
mod deb;
mod image;
mod inside;
mod installed;
mod programs;
mod rpm;
mod stage;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::outside;
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
    #[arg(long = "arch", value_name = "ARCH", value_parser = ["amd64", "arm64"])]
    only: Vec<String>,
    /// Run lintian, rpmlint and what judges images, and package every crate as for publishing
    #[arg(long)]
    check: bool,
    /// Install, upgrade and erase the packages of this processor in new roots, and time the way
    /// to doctor's first line; as root
    #[arg(long)]
    install: bool,
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

/// What the packages are made with, and the Debian package of each.
const TOOLS: [(&str, &str); 2] = [("dpkg-deb", "dpkg"), ("rpmbuild", "rpm")];

const ARCHS: [Arch; 2] = [
    Arch { target: "x86_64-unknown-linux-musl", debian: "amd64", rpm: "x86_64" },
    Arch { target: "aarch64-unknown-linux-musl", debian: "arm64", rpm: "aarch64" },
];

/// What a processor's part of a release was made of.
struct Made {
    arch: Arch,
    /// Of the programs.
    folder: PathBuf,
    packages: [stage::Package; 2],
}

impl Made {
    /// Whether this machine runs it.
    fn is_host(&self) -> bool {
        is_host(&self.arch)
    }
}

fn is_host(arch: &Arch) -> bool {
    arch.target.starts_with(std::env::consts::ARCH)
}

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
    check_needs(args)?;
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
    let made = make(&release, args)?;
    let mut listing = listing(&release.out)?;
    if args.check {
        listing += &checked::all(&release, &made)?;
    }
    if args.install {
        listing += &installed::all(&release, &made)?;
    }
    if args.twice {
        listing += &again::compare(&release, args)?;
    }
    Ok(listing)
}

/// Checks what a release needs before anything is emptied or built.
fn check_needs(args: &Args) -> io::Result<()> {
    let is_wanted = |arch: &&Arch| is_wanted(args, arch);
    if !ARCHS.iter().filter(is_wanted).any(is_host) {
        let host = ARCHS.iter().find(|arch| is_host(arch)).map_or("?", |arch| arch.debian);
        let why = format!("this machine's program writes the manual pages; add --arch {host}");
        return Err(io::Error::other(why));
    }
    for (tool, package) in TOOLS {
        if !outside::is_available(Command::new(tool).arg("--version")) {
            let why = format!("no {tool}; run `apt-get install {package}`");
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}

fn is_wanted(args: &Args, arch: &Arch) -> bool {
    args.only.is_empty() || args.only.iter().any(|only| only == arch.debian)
}

/// All of its folder.
fn make(release: &Release<'_>, args: &Args) -> io::Result<Vec<Made>> {
    let wanted = |arch: &&Arch| is_wanted(args, arch);
    let mut all = Vec::new();
    for arch in ARCHS.iter().filter(wanted) {
        let folder = match &args.programs {
            Some(folder) => folder.join(arch.target),
            None => programs::build(release.project, arch)?,
        };
        all.push((*arch, folder));
    }
    let host = all.iter().find(|(arch, _)| is_host(arch));
    let (_, host) = host.ok_or_else(|| io::Error::other("no program of this processor"))?;
    let host = host.join(PROGRAMS[0]);
    let mut made = Vec::new();
    for (arch, folder) in all {
        let inside = inside::inside(release, &arch)?;
        programs::publish(&release.version, &arch, &folder, &release.out)?;
        let packages = stage::packages(release, &folder, &host, &inside)?;
        for package in &packages {
            deb::build(release, &arch, package)?;
            rpm::build(release, &arch, package)?;
        }
        made.push(Made { arch, folder, packages });
    }
    image::build(release, &made)?;
    checksums(release)?;
    Ok(made)
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
