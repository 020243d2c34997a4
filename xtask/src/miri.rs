//! `cargo xtask miri`: pvclock's tests, its unsafe module above all, in an
//! interpreter that knows what is undefined.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> ExitCode {
    if !outside::answers(project.nightly_cargo().args(["miri", "--version"])) {
        eprintln!("miri: no nightly toolchain with Miri");
        eprintln!("  try: rustup toolchain install nightly --component miri,rust-src");
        return ExitCode::FAILURE;
    }
    outside::pass_through(&mut command(project))
}

fn command(project: &Project) -> std::process::Command {
    let mut command = project.nightly_cargo();
    command
        .args(["miri", "test", "--quiet", "--package", "pvclock"])
        // proptest looks for its regression files on the disk.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        // Builds of two compilers in one folder throw each other's away.
        .env("CARGO_TARGET_DIR", project.target_folder().join("miri-tests"));
    command
}
