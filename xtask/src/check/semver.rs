//! What is public changes as its version says, by cargo-semver-checks: since the last
//! release, which a tag `v…` names.

use std::process::Command;

use crate::outside::{self, Outcome};
use crate::project::Project;

pub(super) fn check(project: &Project) -> Outcome {
    let Some(release) = last_release(project) else {
        return Outcome::skipped("no release to compare with", "git tag v0.1.0, at the first");
    };
    if !outside::is_available(project.cargo().args(["semver-checks", "--version"])) {
        let remedy = "cargo install --locked cargo-semver-checks";
        return Outcome::skipped("cargo-semver-checks is not installed", remedy);
    }
    let mut command = project.cargo();
    // What `publish = false` says is left out by itself.
    Outcome::of(command.args(["semver-checks", "--workspace", "--baseline-rev", &release]))
}

/// The newest tag of a release that leads here.
fn last_release(project: &Project) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    let output = git.current_dir(project.root()).output().ok()?;
    let tag = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| tag.trim().to_owned())
}
