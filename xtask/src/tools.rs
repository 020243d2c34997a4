//! `cargo xtask tools`: programs that CI's steps need and this machine lacks. What cannot be
//! had is reported, and the steps that need it are skipped.
//!
//! Debian's packages of daemons are unpacked below `target/tools`, not installed: installing
//! them would start a chronyd that sets the clock, and a Prometheus.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::outside::{self, Outcome};
use crate::page;
use crate::project::Project;

/// Programs that cargo installs: the program, its package and version, and further arguments.
const BY_CARGO: [(&str, &str, &str, &[&str]); 2] = [
    ("cargo-deny", "cargo-deny", "^0.20", &[]),
    ("mdbook", "mdbook", "^0.5", &["--no-default-features", "--features", "search"]),
];

/// Packages of Debian's that are unpacked: how it shows that a machine has one, and its name.
const UNPACKED: [(Sign, &str); 3] = [
    (Sign::Programs(&["chronyd"]), "chrony"),
    (Sign::Programs(&["promtool"]), "prometheus"),
    (Sign::PythonModule("prometheus_client"), "python3-prometheus-client"),
];

/// Packages of Debian's that are installed.
const INSTALLED: [(Sign, &str); 3] = [
    (Sign::Programs(&["qemu-system-x86_64"]), "qemu-system-x86"),
    (Sign::Programs(&["node"]), "nodejs"),
    (Sign::Programs(&page::BROWSERS), "chromium-headless-shell"),
];

/// How it shows that a machine has what a package holds.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// One of these programs is there.
    Programs(&'static [&'static str]),
    PythonModule(&'static str),
}

impl Sign {
    fn is_there(self, project: &Project) -> bool {
        match self {
            Self::Programs(programs) => programs.iter().any(|program| is_there(project, program)),
            Self::PythonModule(module) => {
                let import = format!("import {module}");
                let mut python = Command::new("python3");
                outside::is_available(python.args(["-c", &import]))
            }
        }
    }
}

/// Targets for which something is built, and nothing is run but the simulator's page.
const TARGETS: [&str; 5] = [
    "thumbv7em-none-eabi",
    "aarch64-unknown-none",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
    "wasm32-unknown-unknown",
];

pub(crate) fn run(project: &Project) -> ExitCode {
    // Compiling needs the CPUs, and packages the network.
    std::thread::scope(|scope| {
        scope.spawn(|| by_cargo(project));
        scope.spawn(|| by_apt(project));
    });
    ExitCode::SUCCESS
}

fn by_cargo(project: &Project) {
    let mut rustup = Command::new("rustup");
    report("targets", || Outcome::of(rustup.args(["target", "add"]).args(TARGETS)));
    for (program, package, version, more) in BY_CARGO {
        if !is_there(project, program) {
            let mut cargo = project.cargo();
            // They run for seconds, and take minutes to optimize.
            cargo.args(["install", "--quiet", "--locked", "--debug", "--version", version]);
            cargo.args(more).arg(package).env("CARGO_PROFILE_DEV_DEBUG", "0");
            report(program, || Outcome::of(&mut cargo));
        }
    }
}

fn by_apt(project: &Project) {
    let unpacked = UNPACKED.iter().filter(|(sign, _)| !sign.is_there(project));
    let installed = INSTALLED.iter().filter(|(sign, _)| !sign.is_there(project));
    let (unpacked, installed): (Vec<_>, Vec<_>) = (unpacked.collect(), installed.collect());
    if unpacked.is_empty() && installed.is_empty() {
        return;
    }
    if !can_install() {
        println!("tools: Debian's packages need root and apt-get; their steps are skipped");
        return;
    }
    report("apt's lists", || Outcome::of(Command::new("apt-get").args(["-qq", "update"])));
    for (_, package) in installed {
        report(package, || install(&[(*package).to_owned()]));
    }
    for (_, package) in unpacked {
        report(package, || unpack(project, package));
    }
}

/// Where packages are unpacked; `.ci/run` has its folders of programs in PATH, and that of
/// Python's modules in PYTHONPATH.
fn folder(project: &Project) -> PathBuf {
    project.target_folder().join("tools")
}

fn is_there(project: &Project, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = ["usr/bin", "usr/sbin"].map(|below| folder(project).join(below));
    std::env::split_paths(&path).chain(own).any(|folder| folder.join(program).is_file())
}

fn can_install() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root && outside::is_available(Command::new("apt-get").arg("--version"))
}

fn install(packages: &[String]) -> Outcome {
    let mut apt = Command::new("apt-get");
    apt.args(["-qq", "install", "--yes", "--no-install-recommends"]).args(packages);
    Outcome::of(apt.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Unpacks a package, and installs the libraries that it depends on.
fn unpack(project: &Project, package: &str) -> Outcome {
    let folder = folder(project);
    if let Err(error) = fs::create_dir_all(&folder) {
        return Outcome::Failed(format!("{}: {error}\n", folder.display()));
    }
    let libraries = libraries(package);
    if !libraries.is_empty()
        && let failed @ Outcome::Failed(_) = install(&libraries)
    {
        return failed;
    }
    // apt drops its rights to a user that may not write here; that is a warning.
    let script =
        "apt-get -qq download \"$1\" && dpkg-deb --extract \"$1\"_*.deb . && rm \"$1\"_*.deb";
    Outcome::of(Command::new("sh").args(["-ec", script, "sh", package]).current_dir(folder))
}

/// The libraries that a package depends on by name.
fn libraries(package: &str) -> Vec<String> {
    let mut apt = Command::new("apt-cache");
    let output = apt.args(["depends", package]).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().filter_map(library).map(str::to_owned).collect()
}

/// The library in a line of `apt-cache depends`.
fn library(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("Depends: ")?;
    (name.starts_with("lib") && !name.contains(['<', ' '])).then_some(name)
}

fn report(what: &str, provide: impl FnOnce() -> Outcome) {
    let begun = Instant::now();
    let outcome = provide();
    let took = begun.elapsed().as_secs();
    match outcome {
        Outcome::Passed => println!("tools: {what}: ready, after {took} s"),
        Outcome::Failed(output) => {
            let last = output.lines().rev().find(|line| !line.trim().is_empty());
            println!("tools: {what}: not available: {}", last.unwrap_or("no reason given"));
        }
        Outcome::Skipped { why, remedy } => println!("tools: {what}: {why}; try: {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_apt_names_so() {
        assert_eq!(library("  Depends: libnettle8"), Some("libnettle8"));
        for other in ["chrony", "  Depends: adduser", "  Depends: <libx>", "  Suggests: libz1"] {
            assert_eq!(library(other), None, "{other}");
        }
    }
}
