//! The crate's static library as people build it, and programs that use it:
//! of this crate, and of each whose tests have this file as a module.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

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

/// Builds it, and returns the path that cargo prints.
pub(crate) fn build(target_folder: &Path, args: &[&str]) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--offline",
            "--profile",
            "dist",
            "--message-format=json",
            "--manifest-path",
        ])
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
        .filter(|message| message["target"]["crate_types"][0] == "staticlib")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .map(|path| PathBuf::from(path.as_str().unwrap()))
        .find(|path| path.extension().is_some_and(|extension| extension == "a"))
        .expect("no static library among what cargo built")
}

/// Whether there is a C++ compiler; with a message where there is none.
pub(crate) fn has_cpp() -> bool {
    let run =
        Command::new("c++").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let exists = run.is_ok_and(|status| status.success());
    if !exists {
        // Past the test harness, which would swallow it.
        let _ = writeln!(std::io::stderr(), "skipped: no C++ compiler (c++)");
    }
    exists
}

/// A program of one source below the crate's folder, linked with the library,
/// and the folder that goes with it.
pub(crate) fn program(compiler: &str, standard: &str, source: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile(compiler, standard, |command| {
        command
            .arg(crate_folder().join(source))
            .arg(library())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program);
    });
    (folder, program)
}

/// What a program printed.
pub(crate) fn lines(output: &Output) -> Vec<&str> {
    str::from_utf8(&output.stdout).unwrap().lines().collect()
}

/// Compiles with warnings as errors, the header's folder known.
pub(crate) fn compile(compiler: &str, standard: &str, args: impl FnOnce(&mut Command)) {
    let mut command = Command::new(compiler);
    command
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(crate_folder().join("include"));
    args(&mut command);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
}
