//! This repository's folders, and commands run on this machine.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::guard;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    // Cargo sets it at each `cargo run`, so it is correct in a moved repository.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.ancestors().nth(2).map_or_else(|| manifest.clone(), Path::to_owned)
}

/// Where cargo builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `cargo` in the repository's root, the one that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A file's content.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A program by name, in the folders of PATH and in those of the system's
/// daemons, which a user's PATH may lack.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// For how long a command under guard may run, s.
const GUARDED_S: &str = "3600";

/// Runs a program with an empty standard input, where its guard's is the sign of this run.
const WITHOUT_INPUT: [&str; 3] = ["/bin/sh", "-c", "exec \"$0\" \"$@\" </dev/null"];

/// What a command prints; or that it failed, and the last line of its errors.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    text_of(&program, output)
}

/// The same of a command that takes long: it ends with this run, even a killed one, and so does
/// all that it started.
pub(crate) fn guarded_output_of(command: &Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    if find_program(&program).is_none() {
        return Err(format!("cannot run {program}: it is not installed"));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut guard = Command::new(this);
    guard.args([guard::WORD, GUARDED_S]).args(WITHOUT_INPUT);
    guard.arg(&program).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        guard.current_dir(folder);
    }
    guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = guard.process_group(0).spawn().and_then(|mut child| {
        // Open until it has ended: the guard ends the command when it is closed.
        let input = child.stdin.take();
        let output = child.wait_with_output();
        drop(input);
        output
    });
    text_of(&program, output)
}

fn text_of(program: &str, output: io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} failed ({}): {last}", output.status))
}

/// The commit of this repository's code.
pub(crate) fn commit() -> String {
    stamp::commit(&root())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_last_line() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        assert_eq!(output_of(&mut failing).unwrap_err(), "sh failed (exit status: 3): last");
        assert_eq!(output_of(Command::new("echo").arg("yes")).unwrap(), "yes\n");
        let missing = output_of(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(missing.starts_with("cannot run no-such-program-here: "), "{missing}");
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(find_program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_program("no-such-program-here"), None);
    }
}
