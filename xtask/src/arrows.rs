//! Which crate may use which. A crate is a floor and arrows only go down:
//! `table` is ARCHITECTURE.md as data. A new row or arrow needs a record in
//! docs/decisions.

mod pure;
mod table;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::arrows::table::{CRATES, Row, Uses};
use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// What the crates are built for: only its dependencies count.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates from outside that a pure crate may use directly.
const PURE_MAY_USE: &[&str] =
    &["hdrhistogram", "libm", "schemars", "serde", "serde_json", "strum", "thiserror", "toml"];

/// Checks the workspace's metadata, as cargo resolves it.
pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let output = project
        .cargo()
        .args(["metadata", "--format-version", "1", "--quiet", "--filter-platform", TARGET])
        .output();
    let failed = |what: String| {
        vec![Diagnostic::new("Cargo.toml", 1, what, "run `cargo metadata` and fix its error")]
    };
    match output {
        Err(error) => failed(format!("cannot run cargo metadata: {error}")),
        Ok(output) if !output.status.success() => {
            failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Err(error) => failed(format!("cargo metadata printed no JSON: {error}")),
            Ok(metadata) => violations(&metadata),
        },
    }
}

/// Whether a file is the root of a pure crate, or of a module that is held to
/// be as pure as one.
pub(crate) fn is_root_of_pure(path: &str) -> bool {
    let is_root = |row: &Row| row.is_pure && path == format!("crates/{}/src/lib.rs", row.folder);
    path == "crates/clock/src/timeline.rs" || CRATES.iter().any(is_root)
}

/// A crate of the workspace.
struct Member<'a> {
    /// Its folder, without `crates/`: its name in the table.
    folder: &'a str,
    manifest: &'a str,
    package: &'a Value,
}

/// Compares cargo's metadata with the table.
fn violations(metadata: &Value) -> Vec<Diagnostic> {
    let members = members(metadata);
    let mut diagnostics = Vec::new();
    for (name, member) in &members {
        let mut report = |what: String, remedy: &str| {
            diagnostics.push(Diagnostic::new(member.manifest, 1, what, remedy));
        };
        let Some(row) = CRATES.iter().find(|row| row.folder == member.folder) else {
            let what = format!("crate {name} has no row in the table of floors");
            report(what, "add one to xtask/src/arrows/table.rs, with a record in docs/decisions");
            continue;
        };
        if *name != row.package() {
            let what = format!("package {name} in the folder of {}", row.package());
            report(what, "name packages parachron-FOLDER");
        }
        for dependency in array(&member.package["dependencies"]) {
            let Some(used) = dependency["name"].as_str() else { continue };
            let for_tests = dependency["kind"].as_str() == Some("dev");
            let violation = match members.get(used) {
                Some(used) => upward(row, used.folder, for_tests),
                None => (row.is_pure && !for_tests && !PURE_MAY_USE.contains(&used)).then(|| {
                    let what = format!("{name} uses {used} and must stay pure");
                    (what, "do without, or move the code to a crate that is not pure")
                }),
            };
            if let Some((what, remedy)) = violation {
                report(what, remedy);
            }
        }
        if row.is_pure
            && let Some(path) = pure::path_to_system(metadata, name)
        {
            let what = format!("{name} is pure and links a system library: {path}");
            report(what, "remove the first dependency of this path, or its feature");
        }
    }
    diagnostics
}

/// The workspace's crates, by package name.
fn members(metadata: &Value) -> BTreeMap<&str, Member<'_>> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let ids = array(&metadata["workspace_members"]);
    let is_member = |package: &&Value| ids.contains(&package["id"]);
    let member = |package| {
        let package: &Value = package;
        let manifest = package["manifest_path"].as_str()?;
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let folder = manifest.strip_suffix("/Cargo.toml")?;
        let folder = folder.strip_prefix("crates/").unwrap_or(folder);
        Some((package["name"].as_str()?, Member { folder, manifest, package }))
    };
    array(&metadata["packages"]).iter().filter(is_member).filter_map(member).collect()
}

/// What is wrong with an arrow inside the workspace, and the remedy.
fn upward(row: &Row, used: &str, for_tests: bool) -> Option<(String, &'static str)> {
    let target = CRATES.iter().find(|row| row.folder == used)?;
    if target.is_top {
        let what = format!("{} uses {used}, which nothing may use", row.folder);
        return Some((what, "move the shared part to a lower floor, a test to e2e"));
    }
    // Tests may use any library: they are not part of what others link.
    (!for_tests && !row.may_use(target)).then(|| {
        let what = format!("{} may not use {used}: arrows only go down", row.folder);
        (what, "move the shared part to a lower floor")
    })
}

impl Row {
    fn may_use(&self, other: &Row) -> bool {
        other.floor < self.floor
            && match self.uses {
                Uses::Only(folders) => folders.contains(&other.folder),
                Uses::AllBelowBut(folders) => !folders.contains(&other.folder),
            }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
