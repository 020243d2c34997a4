//! `libpvclock_c.a` as people build it, and programs that use it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// By the README's command, in the target folder that these tests are in.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        build(target_folder, &[])
    })
}

/// By the README's command for kernels, in a folder of its own, for both
/// libraries would have the same path.
pub(crate) fn library_without_unwinding() -> PathBuf {
    let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-unwinding");
    build(&target_folder, &["--config", "profile.release.panic=\"abort\""])
}

/// Where cargo says that it has put the library.
fn build(target_folder: &Path, args: &[&str]) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["build", "--offline", "--release", "--message-format=json", "--manifest-path"])
        .arg(crate_folder().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_folder)
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo build failed: {}", output.status);
    let messages = str::from_utf8(&output.stdout).unwrap();
    messages
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|message| message["target"]["name"] == "pvclock_c")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .map(|path| PathBuf::from(path.as_str().unwrap()))
        .find(|path| path.extension().is_some_and(|extension| extension == "a"))
        .expect("no static library among what cargo built")
}

pub(crate) fn compiler_answers(compiler: &str) -> bool {
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Compiles with warnings as errors, the header's folder known.
pub(crate) fn compile(compiler: &str, standard: &str, args: impl FnOnce(&mut Command)) {
    let mut command = Command::new(compiler);
    command
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(crate_folder().join("include"));
    args(&mut command);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
}
