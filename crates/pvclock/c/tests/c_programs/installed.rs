//! The library as it is installed, below a prefix of the tests, and callers in several
//! languages that find it there by pkg-config: of this crate, and of each whose tests
//! have this file as a module.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::library::{crate_folder, library};

/// Installs by the README's lines, and runs `caller` in C11, C++17, Go and Python, and
/// `example` as CMake builds it, with arguments; each with its output. What a machine has
/// no tool for is left out, and says so; C11 is not, as Rust links by a C compiler.
pub(crate) fn outputs(example: &[&str]) -> Vec<(&'static str, Output)> {
    let prefix = prefix();
    let built = prefix.join("built");
    fs::create_dir_all(&built).unwrap();
    let callers = crate_folder().join("tests/callers");
    let compiled = |compiler: &str, args: &[&str]| {
        let program = built.join(compiler);
        let mut command = Command::new(compiler);
        command.args(args).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
        command.arg(callers.join("caller.c")).args(flags(&prefix));
        run(command.arg("-o").arg(&program));
        Command::new(program)
    };
    let mut outputs = Vec::new();
    let mut take = |name, tools: &[&str], command: &dyn Fn() -> Command| {
        if tools.iter().all(|tool| has(tool)) {
            outputs.push((name, run(&mut command())));
        }
    };
    take("C11", &[], &|| compiled("cc", &["-std=c11"]));
    take("C++17", &["pkg-config", "c++"], &|| compiled("c++", &["-std=c++17", "-x", "c++"]));
    take("Go", &["pkg-config", "go"], &|| {
        let program = built.join("go");
        let mut go = Command::new("go");
        // A build of its own, which leaves nothing in the home folder.
        go.env("GOCACHE", prefix.with_file_name("go")).env("GO111MODULE", "off");
        go.env("CGO_ENABLED", "1").arg("build").arg("-o").arg(&program);
        run(go.arg(callers.join("caller.go")));
        Command::new(program)
    });
    take("Python", &["python3"], &|| {
        let mut python = Command::new("python3");
        python.arg(callers.join("caller.py"));
        python
    });
    take("CMake", &["pkg-config", "cmake"], &|| {
        let cmake = prefix.join("cmake");
        let mut configure = Command::new("cmake");
        run(configure.arg("-S").arg(crate_folder().join("examples")).arg("-B").arg(&cmake));
        run(Command::new("cmake").arg("--build").arg(&cmake));
        let mut program = Command::new(cmake.join(example[0]));
        program.args(&example[1..]);
        program
    });
    outputs
}

/// The flags that pkg-config prints; those that name the same files where it is missing.
fn flags(prefix: &Path) -> Vec<String> {
    if has("pkg-config") {
        let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", &module()]));
        return words(&String::from_utf8(flags.stdout).unwrap());
    }
    let shared = library().with_extension("so");
    let shared = prefix.join("lib").join(shared.file_name().unwrap());
    vec![format!("-I{}", prefix.join("include").display()), shared.display().to_string()]
}

/// The words of pkg-config's output, in which a backslash keeps a space inside of its word.
fn words(flags: &str) -> Vec<String> {
    let joined = flags.replace("\\ ", "\0");
    joined.split_whitespace().map(|word| word.replace('\0', " ")).collect()
}

/// The name of pkg-config's file, which the crate has one of.
fn module() -> String {
    let files = fs::read_dir(crate_folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension() == Some(OsStr::new("pc")));
    let file = files.next().expect("a file of pkg-config");
    let version = format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(fs::read_to_string(&file).unwrap().contains(&version), "{}", file.display());
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// A folder with include, lib and lib/pkgconfig.
fn prefix() -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_PKG_NAME"));
    let _ = fs::remove_dir_all(&prefix);
    let put = |from: &Path, folder: &str| {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(from, folder.join(from.file_name().unwrap())).unwrap();
    };
    for header in fs::read_dir(crate_folder().join("include")).unwrap() {
        put(&header.unwrap().path(), "include");
    }
    put(library(), "lib");
    let shared = library().with_extension("so");
    put(&shared, "lib");
    // Its soname, which a program looks for.
    let shared = Path::new(shared.file_name().unwrap());
    let soname = prefix.join("lib").join(shared.with_extension("so.0"));
    std::os::unix::fs::symlink(shared, soname).unwrap();
    put(&crate_folder().join(module() + ".pc"), "lib/pkgconfig");
    prefix
}

/// Whether there is a tool; with a message where there is none.
fn has(tool: &str) -> bool {
    let version = if tool == "go" { "version" } else { "--version" };
    let exists = Command::new(tool).arg(version).output().is_ok_and(|run| run.status.success());
    if !exists {
        // Past the test harness, which would swallow it.
        let _ = writeln!(std::io::stderr(), "skipped: no {tool}");
    }
    exists
}

fn run(command: &mut Command) -> Output {
    let lib = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_PKG_NAME")).join("lib");
    command.env("PKG_CONFIG_PATH", lib.join("pkgconfig")).env("LD_LIBRARY_PATH", &lib);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
    output
}
