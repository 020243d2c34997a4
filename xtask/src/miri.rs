//! `cargo xtask miri`: pvclock's tests, its unsafe module above all, in an
//! interpreter that knows what is undefined.

use std::process::ExitCode;

use crate::outside::{self, Outcome};
use crate::project::Project;

pub(crate) fn run(project: &Project) -> ExitCode {
    match missing(project) {
        Some(Outcome::Skipped { why, remedy }) => {
            eprintln!("miri: {why}; try: {remedy}");
            ExitCode::FAILURE
        }
        _ => outside::pass_through(&mut command(project)),
    }
}

/// The same as a step of `check`.
pub(crate) fn step(project: &Project) -> Outcome {
    missing(project).unwrap_or_else(|| Outcome::of(&mut command(project)))
}

fn missing(project: &Project) -> Option<Outcome> {
    let there = outside::answers(project.nightly_cargo().args(["miri", "--version"]));
    (!there).then(|| {
        Outcome::skipped(
            "no nightly toolchain with Miri",
            "rustup toolchain install nightly --component miri,rust-src",
        )
    })
}

fn command(project: &Project) -> std::process::Command {
    let mut command = project.nightly_cargo();
    command
        .args(["miri", "test", "--quiet", "--package", "pvclock"])
        // proptest looks for its regression files on the disk.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        // Builds of two compilers in one folder throw each other's away.
        .env("CARGO_TARGET_DIR", target_folder(project));
    command
}

fn target_folder(project: &Project) -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| project.path("target"), std::path::PathBuf::from)
        .join("miri-tests")
}
