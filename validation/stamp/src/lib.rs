//! What each result carries: its date, its commit and its machine.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Follows a commit where files differ from it.
const CHANGED: &str = "-dirty";

/// Stands for what could not be read.
const UNKNOWN: &str = "not known";

/// The results, and the pages of them. The commit is the last that changed anything else, so
/// results stay those of the newest commit when they are committed themselves.
const NO_CODE: [&str; 3] = [
    ":(top,exclude)validation/results",
    ":(top,exclude)docs/validation",
    ":(top,exclude)docs/measurements",
];

/// The date and time in UTC, as `2026-11-22 08:40`.
#[must_use]
pub fn now_utc() -> String {
    first_line(Command::new("date").args(["--utc", "+%F %R"]))
}

/// The commit of the code around a folder: `28010492`, or `28010492-dirty` where files differ
/// from it; `not known` outside a repository.
#[must_use]
pub fn commit(folder: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).args(["--", ":/"]).args(NO_CODE).current_dir(folder);
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match git(&["log", "-1", "--format=%h", "--abbrev=8"]) {
        Some(commit) if !commit.is_empty() => match git(&["status", "--porcelain"]) {
            Some(changes) if changes.is_empty() => commit,
            _ => commit + CHANGED,
        },
        _ => UNKNOWN.to_owned(),
    }
}

/// Whether a commit says all that there is to know of the code.
#[must_use]
pub fn is_exact(commit: &str) -> bool {
    !commit.ends_with(CHANGED) && commit != UNKNOWN
}

/// CPUs, processor and kernel.
#[must_use]
pub fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let model = model.map_or("processor not known", |(_, model)| model);
    format!("{cpus} × {model}, Linux {}", first_line(Command::new("uname").arg("-r")))
}

/// The first line that a program prints, such as its version.
pub fn first_line(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or(UNKNOWN).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits all there is.
    fn keep(folder: &Path) {
        for arguments in [
            &["add", "--all"][..],
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=a"],
        ] {
            let status = Command::new("git").args(arguments).current_dir(folder).status();
            assert!(status.unwrap().success());
        }
    }

    #[test]
    fn a_commit_is_the_last_that_changed_the_code() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let begun = Command::new("git").args(["init", "--quiet"]).current_dir(folder).status();
        assert_eq!(commit(folder), UNKNOWN, "nothing is committed, or there is no git");
        if !begun.is_ok_and(|status| status.success()) {
            return;
        }
        write(folder, "crates/a/src/lib.rs", "1");
        keep(folder);
        let first = commit(folder);
        assert!(first.len() == 8 && is_exact(&first), "{first}");
        write(folder, "docs/validation/README.md", "1");
        write(folder, "validation/results/rows/a.json", "1");
        assert_eq!(commit(folder), first, "a result that is not committed yet");
        keep(folder);
        assert_eq!(commit(&folder.join("crates")), first, "a result that is");
        write(folder, "crates/a/src/lib.rs", "2");
        let changed = commit(&folder.join("crates"));
        assert!(changed == format!("{first}-dirty") && !is_exact(&changed), "{changed}");
        keep(folder);
        assert!(is_exact(&commit(folder)) && commit(folder) != first);
        assert!(!is_exact(UNKNOWN));
    }

    #[test]
    fn a_program_that_fails_or_is_missing_is_not_known() {
        assert_eq!(first_line(Command::new("printf").arg("a\\nb\\n")), "a");
        assert_eq!(first_line(&mut Command::new("false")), UNKNOWN);
        assert_eq!(first_line(&mut Command::new("no-such-program-here")), UNKNOWN);
        let now = now_utc();
        assert!(now.len() == 16 && now.starts_with("20"), "{now}");
        assert!(machine().contains(" × "), "{}", machine());
    }
}
