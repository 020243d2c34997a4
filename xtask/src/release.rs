//! `cargo xtask release`: all that is published, in one folder: the programs,
//! Debian's and RPM packages, an OCI image, the list of what is inside with its
//! licences, and checksums. Nothing in it tells where or when it was built.

mod deb;
mod image;
mod inside;
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

/// A program that is larger does not go out.
const LARGEST: u64 = 10_000_000;

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
    let git = ["log", "-1", "--format=%ct"];
    let epoch = output(Command::new("git").args(git).current_dir(project.root()))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let release = Release { project, version, epoch: epoch.trim().to_owned(), out, work };
    let wanted =
        |arch: &&Arch| args.only.is_empty() || args.only.iter().any(|one| one == arch.debian);
    let mut programs = Vec::new();
    for arch in ARCHS.iter().filter(wanted) {
        let folder = match &args.programs {
            Some(folder) => folder.join(arch.target),
            None => build(project, arch)?,
        };
        programs.push((*arch, folder));
    }
    let host = programs.iter().find(|(arch, _)| arch.target.starts_with(std::env::consts::ARCH));
    let (_, host) = host.ok_or_else(|| io::Error::other("manual pages need this processor's"))?;
    for (arch, folder) in &programs {
        let inside = inside::of(&release, arch)?;
        for name in PROGRAMS {
            let size = fs::metadata(folder.join(name))?.len();
            if size > LARGEST {
                let why = format!("{name} for {} has {size} bytes of {LARGEST}", arch.debian);
                return Err(io::Error::other(why));
            }
            let to = format!("{name}-{}-{}", release.version, arch.target);
            fs::copy(folder.join(name), release.out.join(to))?;
        }
        for package in stage::packages(&release, folder, &host.join(PROGRAMS[0]), &inside)? {
            deb::build(&release, arch, &package)?;
            rpm::build(&release, arch, &package)?;
        }
    }
    image::build(&release, &programs)?;
    let mut listing = checksums(&release)?;
    if args.check {
        listing += &checked(&release)?;
    }
    Ok(listing)
}

/// Builds the programs of a processor: static, without this machine's paths. Addresses to
/// relocate take a bit each (musl has read them since 1.2.4, Rust's is newer since 1.93), and
/// functions of the same code are one: nothing compares their addresses.
fn build(project: &Project, arch: &Arch) -> io::Result<PathBuf> {
    let target = project.target_folder();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.unwrap_or_default();
    let flags = format!(
        "--remap-path-prefix={}=/parachron --remap-path-prefix={}=/cargo \
         -C link-arg=--pack-dyn-relocs=relr -C link-arg=--icf=all",
        project.root().display(),
        home.display()
    );
    // Rust brings its own linker for musl.
    let linker = format!("CARGO_TARGET_{}_LINKER", arch.target.to_uppercase().replace('-', "_"));
    // ring's C, which calls no library, by the compiler of the same processor's glibc.
    let compiler = format!("CC_{}", arch.target.replace('-', "_"));
    let gcc = format!("{}-gcc", arch.target.replace("unknown-linux-musl", "linux-gnu"));
    let mut cargo = project.cargo();
    cargo.env(&compiler, std::env::var_os(&compiler).unwrap_or_else(|| gcc.into()));
    cargo.args(["build", "--locked", "--quiet", "--profile", "dist", "--target", arch.target]);
    cargo.args(["--package", "parachron", "--package", "parachrond"]);
    cargo.env("RUSTFLAGS", flags).env(linker, "rust-lld").env("CARGO_INCREMENTAL", "0");
    output(&mut cargo)?;
    Ok(target.join(arch.target).join("dist"))
}

/// Writes the checksums, and returns the folder's listing.
fn checksums(release: &Release<'_>) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&release.out)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut sum = Command::new("sha256sum");
    let sums = output(sum.args(&names).current_dir(&release.out))?;
    fs::write(release.out.join("SHA256SUMS"), sums)?;
    let size = |name: &String| fs::metadata(release.out.join(name)).map_or(0, |file| file.len());
    Ok(names.iter().map(|name| format!("{:>10}  {name}\n", size(name))).collect())
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
