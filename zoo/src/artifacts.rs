//! Our own programs, for machines that have no libraries.

use std::path::PathBuf;

use crate::tools;

/// Our programs are static, as a machine may have no libraries of its own.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The profile of Cargo.toml that they are built with.
const PROFILE: &str = "emulated";

/// Builds our programs; the folder that they are in.
pub(crate) fn programs() -> Result<PathBuf, String> {
    let built = tools::cargo()
        .args(["build", "--quiet", "--profile", PROFILE, "--target", TARGET])
        .args(["--package", "parachron", "--package", "parachrond"])
        .args(["--package", "zoo", "--package", "e2e"])
        .args(["--bin", "parachron", "--bin", "parachrond"])
        .args(["--bin", "guest-clock", "--bin", "guest-timex", "--bin", "ntp-server"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    Ok(tools::target_folder().join(TARGET).join(PROFILE))
}
