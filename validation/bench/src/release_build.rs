//! The program as people run it.

use std::path::PathBuf;
use std::process::Command;

/// Builds the program that is packaged, next to this one.
pub(crate) fn parachron() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "dist", "--package", "parachron"])
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.success() {
        return Err(format!("cargo build: {built}"));
    }
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(here.with_file_name("parachron"))
}
