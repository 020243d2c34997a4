//! Which crate uses which. Arrows only go down: a crate's floor is one above the highest that it
//! uses, and ARCHITECTURE.md shows the floors. A new crate needs its reason in docs/decisions.

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
const PURE_MAY_USE: &[&str] = &[
    "anstyle",
    "hdrhistogram",
    "libm",
    "schemars",
    "serde",
    "serde_json",
    "strum",
    "thiserror",
    "toml",
];

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
            Ok(metadata) => {
                let text = std::fs::read_to_string(project.path(PAGE)).unwrap_or_default();
                [violations(&metadata), unused(&metadata), stale(&metadata), misplaced(&text)]
                    .concat()
            }
        },
    }
}

/// The page that shows the floors.
const PAGE: &str = "ARCHITECTURE.md";

/// Arrows of the table that no manifest has.
fn unused(metadata: &Value) -> Vec<Diagnostic> {
    let members = members(metadata);
    let mut diagnostics = Vec::new();
    for member in members.values() {
        let row = CRATES.iter().find(|row| row.folder == member.folder);
        let Some(Row { uses: Uses::Only(folders), .. }) = row else { continue };
        let dependencies = array(&member.package["dependencies"]).iter();
        let used: Vec<&str> = dependencies
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .filter_map(|dependency| Some(members.get(dependency["name"].as_str()?)?.folder))
            .collect();
        for folder in folders.iter().filter(|folder| !used.contains(*folder)) {
            let what = format!("{} does not use {folder}, as the table has it", member.folder);
            diagnostics.push(Diagnostic::new(member.manifest, 1, what, "remove it from the table"));
        }
    }
    diagnostics
}

/// The file of the table.
const TABLE: &str = "xtask/src/arrows/table.rs";

/// Rows of the table whose crate is no member of the workspace.
fn stale(metadata: &Value) -> Vec<Diagnostic> {
    let members = members(metadata);
    let is_member = |row: &&Row| members.values().any(|member| member.folder == row.folder);
    let report = |row: &Row| {
        let what = format!("the workspace has no crate {}", row.folder);
        Diagnostic::new(TABLE, 1, what, "remove its row")
    };
    CRATES.iter().filter(|row| !is_member(row)).map(report).collect()
}

/// Crates that ARCHITECTURE.md does not show, or shows on another floor, and rows of its table
/// that are no crate's. A row without a number has the floor of the row above it.
fn misplaced(text: &str) -> Vec<Diagnostic> {
    let mut floor = 0;
    let mut shown = BTreeMap::new();
    let before_table = |(_, line): &(usize, &str)| !line.starts_with("| floor |");
    let table = text.lines().enumerate().skip_while(before_table);
    for (at, line) in table.take_while(|(_, line)| line.starts_with('|')) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(number), Some(name)) = (cells.next(), cells.next()) else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else {
            continue;
        };
        floor = number.parse().unwrap_or(floor);
        shown.entry(name).or_insert((at + 1, floor));
    }
    let wrong = CRATES.iter().filter(|row| !row.is_tool()).filter_map(|row| {
        let right = row.floor();
        match shown.get(row.folder) {
            Some((_, floor)) if *floor == right => None,
            Some((line, floor)) => {
                Some((*line, format!("{} is on floor {right}, not {floor}", row.folder)))
            }
            None => Some((1, format!("{} is not shown, on floor {right}", row.folder))),
        }
    });
    let misplaced = wrong.map(|(line, what)| Diagnostic::new(PAGE, line, what, "move its row"));
    let is_stale = |name: &str| !CRATES.iter().any(|row| !row.is_tool() && row.folder == name);
    let stale = shown.iter().filter(|(name, _)| is_stale(name)).map(|(name, (line, _))| {
        let what = format!("{name} has no row in the table of floors");
        Diagnostic::new(
            PAGE,
            *line,
            what,
            "remove its row, or add one to xtask/src/arrows/table.rs",
        )
    });
    misplaced.chain(stale).collect()
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
            report(what, "add one to xtask/src/arrows/table.rs, with its reason in docs/decisions");
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
        let folder = ["crates/", "validation/"]
            .iter()
            .find_map(|above| folder.strip_prefix(above))
            .unwrap_or(folder);
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
        match self.uses {
            Uses::Only(folders) => folders.contains(&other.folder),
            Uses::Any => !other.is_top,
        }
    }

    /// What only checks the product, or is a chore.
    fn is_tool(&self) -> bool {
        let tools = ["bench", "e2e", "fuzz", "machines", "stamp", "test-size", "xtask"];
        tools.contains(&self.folder)
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
