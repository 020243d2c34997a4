//! The project's folder, and its files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo's choice of packages and targets, with the features that tests give to their
/// dependencies: after `cargo test --workspace` nothing is left to compile. Chosen by
/// `--package`, fifty crates would have other features, and be compiled again. That of a test,
/// of any, adds the features that only tests ask for; this one has few dependencies of its own.
const AS_TESTED: [&str; 3] = ["--workspace", "--test", "program"];

/// The project's root folder.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
}

impl Project {
    /// The workspace that this xtask belongs to.
    pub(crate) fn here() -> Self {
        // Cargo sets it at each `cargo run`, so it is correct in a moved repository.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().map_or_else(|| manifest.clone(), Path::to_owned);
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the root.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Where cargo builds.
    pub(crate) fn target_folder(&self) -> PathBuf {
        folder("CARGO_TARGET_DIR").unwrap_or_else(|| self.path("target"))
    }

    /// Where Cargo keeps the sources of dependencies.
    pub(crate) fn cargo_home(&self) -> PathBuf {
        let home = || folder("HOME").unwrap_or_default().join(".cargo");
        folder("CARGO_HOME").unwrap_or_else(home)
    }

    /// `cargo` in the root, the one that runs us.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }

    /// Builds a program, or an example: `["--bin", "parachron"]`.
    pub(crate) fn build(&self, which: &[&str]) -> Command {
        let mut cargo = self.cargo();
        cargo.args(["build", "--quiet"]).args(AS_TESTED).args(which);
        cargo
    }

    /// A program that is built, with the variable that `cargo run` would set: the folder of its
    /// package.
    pub(crate) fn program(&self, name: &str, package: &str) -> Command {
        let mut program = Command::new(self.target_folder().join("debug").join(name));
        program.current_dir(&self.root).env("CARGO_MANIFEST_DIR", self.path(package));
        program
    }

    /// The project's own files, relative to the root, sorted: what git tracks or would track.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = git.current_dir(&self.root).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            eprintln!("no list of the project's files: run it in a clone, with git installed");
            std::process::exit(1);
        };
        let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut files: Vec<String> =
            names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        files.retain(|file| self.path(file).symlink_metadata().is_ok_and(|m| !m.is_dir()));
        files.sort();
        files.dedup();
        files
    }
}

/// That an environment variable names.
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_its_own_files() {
        let files = Project::here().files();
        assert!(files.iter().any(|file| file == "xtask/src/project.rs"), "{files:?}");
        assert!(!files.iter().any(|file| file.starts_with("target/")));
    }
}
