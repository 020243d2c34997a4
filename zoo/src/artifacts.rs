//! Our own programs, for machines that have no libraries.

use std::path::PathBuf;

use crate::outcome::Unavailable;
use crate::tools;

/// Our programs are static, as a machine may have no libraries of its own.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// With musl and its own linker Rust needs nothing of the system.
const ARM64: &str = "aarch64-unknown-linux-musl";

/// The profile of Cargo.toml that they are built with.
const PROFILE: &str = "emulated";

/// Builds our programs; the folder that they are in.
pub(crate) fn programs() -> Result<PathBuf, String> {
    build(TARGET, ("RUSTFLAGS", "-C target-feature=+crt-static"))
}

/// The same for arm64.
pub(crate) fn programs_arm64() -> Result<PathBuf, Unavailable> {
    build(ARM64, ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")).map_err(|why| {
        let last = why.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Unavailable::new(
            format!("no programs for arm64: {last}"),
            "rustup target add ".to_owned() + ARM64,
        )
    })
}

fn build(target: &str, (name, value): (&str, &str)) -> Result<PathBuf, String> {
    let built = tools::cargo()
        .args(["build", "--quiet", "--profile", PROFILE, "--target", target])
        .args(["--package", "parachron", "--package", "parachrond"])
        .args(["--package", "zoo", "--package", "e2e"])
        .args(["--bin", "parachron", "--bin", "parachrond"])
        .args(["--bin", "guest-clock", "--bin", "guest-timex", "--bin", "ntp-server"])
        .env(name, value)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    Ok(tools::target_folder().join(target).join(PROFILE))
}
