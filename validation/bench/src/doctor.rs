//! `parachron doctor` as a person runs it: a whole process, start to end.
//!
//! # Invariants of the unsafe code
//! 1. `wait4` fills the two structures it is given and keeps nothing; the
//!    process waited for is our child, and no other code waits for it.
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::judge;

/// Runs each command `runs` times; whether every bar is met.
pub(crate) fn run(runs: usize) -> Result<bool, String> {
    let binary = parachron()?;
    let tree =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/machines/healthy-kvm-guest");
    let captured = tree.display().to_string();
    let root = measure(&binary, &["doctor", "--root", &captured], runs)?;
    let live = measure(&binary, &["doctor"], runs)?;
    println!("median time of {runs} runs of the release build, largest memory of all\n");
    let mut met = judge("doctor --root on a captured tree", root.median_ms, 50.0, " ms");
    met &= judge("doctor, whole run", live.median_ms / 1e3, 3.0, " s");
    met &= judge("doctor, memory at its peak", live.peak_mb, 30.0, " MB");
    Ok(met)
}

struct Figures {
    median_ms: f64,
    peak_mb: f64,
}

fn measure(binary: &Path, arguments: &[&str], runs: usize) -> Result<Figures, String> {
    let mut took_ms = Vec::new();
    let mut peak_mb = 0.0f64;
    for _ in 0..runs {
        let start = Instant::now();
        let child = Command::new(binary)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let (status, memory_mb) = wait(child.id()).map_err(|error| error.to_string())?;
        took_ms.push(start.elapsed().as_secs_f64() * 1e3);
        peak_mb = peak_mb.max(memory_mb);
        if !status.success() {
            return Err(format!("parachron {}: {status}", arguments.join(" ")));
        }
    }
    took_ms.sort_by(f64::total_cmp);
    let median_ms = *took_ms.get(runs / 2).ok_or("no runs requested")?;
    Ok(Figures { median_ms, peak_mb })
}

/// The child's exit status, and its largest resident set in MB: `wait4` returns
/// it, the standard library's `wait` does not.
fn wait(child: u32) -> std::io::Result<(ExitStatus, f64)> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`: integers alone.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let child = child.cast_signed();
    // SAFETY: invariant 1; both structures are live locals.
    let waited = unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) };
    if waited != child {
        return Err(std::io::Error::last_os_error());
    }
    Ok((ExitStatus::from_raw(status), usage.ru_maxrss as f64 / 1024.0))
}

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
