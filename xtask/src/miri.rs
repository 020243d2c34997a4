//! `cargo xtask miri`: tests in an interpreter that detects undefined behaviour.
//! All of pvclock's, for its unsafe module; those of clock that make no
//! system call and read no TSC; and vmm's of the memory that a guest shares.

use std::process::{Command, ExitCode};

use crate::outside;
use crate::project::Project;

/// The options of `cargo miri test`: a package, and which of its tests.
const RUNS: [&[&str]; 3] = [
    &["--package", "pvclock"],
    &["--package", "parachron-clock", "--lib"],
    &["--package", "parachron-vmm", "--lib", "memory"],
];

pub(crate) fn run(project: &Project) -> ExitCode {
    if !outside::is_available(project.nightly_cargo().args(["miri", "--version"])) {
        eprintln!("miri: no nightly toolchain with Miri");
        eprintln!("  try: rustup toolchain install nightly --component miri,rust-src");
        return ExitCode::FAILURE;
    }
    for tests in RUNS {
        let ended = outside::pass_through(&mut command(project, tests));
        if ended != ExitCode::SUCCESS {
            return ended;
        }
    }
    ExitCode::SUCCESS
}

fn command(project: &Project, tests: &[&str]) -> Command {
    let mut command = project.nightly_cargo();
    command
        .args(["miri", "test", "--quiet"])
        .args(tests)
        // proptest reads its regression files from disk.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        // Two compilers in one build folder discard each other's builds.
        .env("CARGO_TARGET_DIR", project.target_folder().join("miri-tests"));
    command
}
