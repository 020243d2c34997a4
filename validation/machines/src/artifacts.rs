//! Our own programs, for machines that have no libraries.

use std::path::PathBuf;

use crate::outcome::Unavailable;
use crate::tools;

/// Our programs are static, as a machine may have no libraries of its own.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const ARM64: &str = "aarch64-unknown-linux-musl";

/// Rust's linker for musl, and for ring's C, which calls no library, the compiler of the same
/// processor's glibc.
const ARM64_TOOLS: [(&str, &str); 2] = [
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
    ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
];

/// The profile that they are built with.
const PROFILE: &str = "release";

/// Builds our programs; the folder that they are in.
pub(crate) fn programs() -> Result<PathBuf, String> {
    build(TARGET, &["--bin", "stock-linux"], &[("RUSTFLAGS", "-C target-feature=+crt-static")])
}

/// The same for arm64.
pub(crate) fn programs_arm64() -> Result<PathBuf, Unavailable> {
    build(ARM64, &[], &ARM64_TOOLS).map_err(|why| {
        let last = why.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Unavailable::new(
            format!("no programs for arm64: {last}"),
            format!("rustup target add {ARM64}; apt-get install gcc-aarch64-linux-gnu"),
        )
    })
}

fn build(target: &str, more: &[&str], environment: &[(&str, &str)]) -> Result<PathBuf, String> {
    let built = tools::cargo()
        .args(["build", "--quiet", "--profile", PROFILE, "--target", target])
        .args(["--package", "parachron", "--package", "parachron-daemon"])
        .args(["--package", "machines"])
        .args(["--bin", "parachron", "--bin", "parachrond"])
        .args(["--bin", "guest-clock", "--bin", "ntp-server"])
        .args(more)
        .envs(environment.iter().copied())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    Ok(tools::target_folder().join(target).join(PROFILE))
}
