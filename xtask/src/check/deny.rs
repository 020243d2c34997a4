//! Dependencies' licences, sources and known vulnerabilities, by cargo-deny.

use crate::outside::{self, Outcome};
use crate::project::Project;

/// The licences, bans and sources of deny.toml.
pub(crate) fn licences(project: &Project) -> Outcome {
    missing(project).unwrap_or_else(|| check(project, &["licenses", "bans", "sources"]))
}

/// RustSec's advisories. Their database is a git repository on the network:
/// if it cannot be fetched, the step is skipped.
pub(crate) fn advisories(project: &Project) -> Outcome {
    if let Some(missing) = missing(project) {
        return missing;
    }
    if let Outcome::Failed(output) =
        Outcome::of(project.cargo().args(["deny", "fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0"))
    {
        return Outcome::skipped(
            format!("the advisory database cannot be fetched: {}", output.trim()),
            "run it with access to github.com/RustSec/advisory-db",
        );
    }
    check(project, &["advisories"])
}

fn check(project: &Project, what: &[&str]) -> Outcome {
    super::workspaces(project)
        .iter()
        .map(|manifest| {
            let which = ["deny", "--manifest-path", manifest, "--config", "deny.toml", "check"];
            Outcome::of(project.cargo().args(which).args(what))
        })
        .find(|outcome| *outcome != Outcome::Passed)
        .unwrap_or(Outcome::Passed)
}

fn missing(project: &Project) -> Option<Outcome> {
    let there = outside::is_available(project.cargo().args(["deny", "--version"]));
    (!there).then(|| {
        Outcome::skipped("cargo-deny is not installed", "cargo install --locked cargo-deny")
    })
}
