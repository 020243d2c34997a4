//! Programs of this workspace, built with the features that its tests give to their
//! dependencies: after `cargo test --workspace` nothing is left to compile. Chosen by
//! `--package`, fifty crates would have other features, and be compiled again.

use std::process::Command;

use crate::project::Project;

/// Cargo's choice of packages and targets. That of a test, of any, adds the features that only
/// tests ask for; this one has few dependencies of its own.
const AS_TESTED: [&str; 3] = ["--workspace", "--test", "program"];

/// Builds a program, or an example: `["--bin", "parachron"]`.
pub(crate) fn build(project: &Project, which: &[&str]) -> Command {
    let mut cargo = project.cargo();
    cargo.args(["build", "--quiet"]).args(AS_TESTED).args(which);
    cargo
}

/// A program that is built, with the variable that `cargo run` would set: the folder of its
/// package.
pub(crate) fn program(project: &Project, name: &str, package: &str) -> Command {
    let mut program = Command::new(project.target_folder().join("debug").join(name));
    program.current_dir(project.root()).env("CARGO_MANIFEST_DIR", project.path(package));
    program
}
