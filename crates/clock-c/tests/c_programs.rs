//! C and C++ programs compile against the header, link with the library, and
//! tell the time.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `libclock_c.a` by the README's command, in the target folder that these
/// tests are in; where cargo says that it has put it.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
        let output = Command::new(cargo)
            .args(["build", "--offline", "--release", "--message-format=json", "--manifest-path"])
            .arg(crate_folder().join("Cargo.toml"))
            .arg("--target-dir")
            .arg(target_folder)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "cargo build failed: {}", output.status);
        str::from_utf8(&output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|message| message["target"]["name"] == "clock_c")
            .filter_map(|message| message["filenames"].as_array().cloned())
            .flatten()
            .map(|path| PathBuf::from(path.as_str().unwrap()))
            .find(|path| path.extension().is_some_and(|extension| extension == "a"))
            .expect("no static library among what cargo built")
    })
}

/// A program of one source, compiled with warnings as errors, and the folder
/// that goes with it.
fn program(compiler: &str, standard: &str, source: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut command = Command::new(compiler);
    command
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(crate_folder().join("include"))
        .arg(crate_folder().join(source))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    (folder, program)
}

fn monotonic_ns() -> u64 {
    clock::shared().now_ordered().as_nanos()
}

fn lines(output: &Output) -> Vec<&str> {
    assert!(output.status.success(), "{output:?}");
    str::from_utf8(&output.stdout).unwrap().lines().collect()
}

/// Ours, the program's, ours again: in this order, for both tell what
/// CLOCK_MONOTONIC shows.
#[test]
fn the_example_tells_the_same_time_as_rust() {
    let (_folder, program) = program("cc", "-std=c11", "examples/what_time.c");
    let before = monotonic_ns();
    let output = Command::new(&program).output().unwrap();
    let after = monotonic_ns();
    let lines = lines(&output);
    let told = lines[0].strip_prefix("monotonic: ").unwrap().strip_suffix(" ns").unwrap();
    let told: u64 = told.parse().unwrap();
    assert!(before < told && told < after, "{before} ns, then {told} ns, then {after} ns");
    assert!(lines[1].starts_with("time of day: "), "{lines:?}");
    assert!(lines[2].starts_with("counts: the "), "{lines:?}");
    assert!(lines[4].ends_with(" ns a read"), "{lines:?}");
}

#[test]
fn every_function_answers_c_as_the_header_says() {
    let (_folder, program) = program("cc", "-std=c11", "tests/interface.c");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(lines(&output), ["all as said"]);
}

#[test]
fn cpp_programs_can_use_the_header() {
    let answers = Command::new("c++").arg("--version").stdout(Stdio::null()).status();
    if !answers.is_ok_and(|status| status.success()) {
        // Past the test harness, which would swallow it.
        let _ = writeln!(std::io::stderr(), "skipped: no C++ compiler (c++)");
        return;
    }
    let (_folder, program) = program("c++", "-std=c++11", "tests/header.cpp");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(lines(&output), ["time goes forward"]);
}
