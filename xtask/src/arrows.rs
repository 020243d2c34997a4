//! Which crate uses which: by the table of floors in ARCHITECTURE.md a crate uses crates of lower
//! floors only, and a pure crate uses nothing that calls the system.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::check::metadata;
use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// The page that has the table: to move a crate, move its row.
const PAGE: &str = "ARCHITECTURE.md";

/// What the crates are built for: only its dependencies count.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates from outside that a pure crate may use directly.
const PURE_MAY_USE: &str =
    "anstyle hdrhistogram libm schemars serde serde_json shlex strum thiserror toml";

/// Libraries that make system calls, talk to KVM or to a network: no pure crate links them, not
/// even through another.
const SYSTEM: &str = "clock-steering errno getrandom iana-time-zone kvm-bindings kvm-ioctls libc \
    linux-raw-sys memmap2 mio nix ntp-proto rand raw-cpuid rsntp rustix sd-notify seccompiler \
    signal-hook signal-hook-registry socket2 tokio vm-memory vmm-sys-util";

/// Denies the lints that clippy.toml configures, in a pure crate.
const PURE_LINTS: &str =
    "deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// In the page, from 1.
    line: usize,
    floor: u8,
    is_pure: bool,
}

/// Compares what cargo says of the workspace with the table.
pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let metadata = match metadata(project) {
        Ok(metadata) => metadata,
        Err(why) => return vec![Diagnostic::new("Cargo.toml", 1, why, "run `cargo metadata`")],
    };
    let rows = rows(&fs::read_to_string(project.path(PAGE)).unwrap_or_default());
    let mut found = violations(&rows, &metadata);
    for (folder, row) in rows.iter().filter(|(_, row)| row.is_pure) {
        let root = format!("crates/{folder}/src/lib.rs");
        let text = fs::read_to_string(project.path(&root)).unwrap_or_default();
        if !text.contains(PURE_LINTS) {
            let what = "a pure crate that does not deny clippy's disallowed_* lints";
            found.push(Diagnostic::new(&root, 1, what, "copy the attribute from clippy.toml"));
        }
        if let Some(library) = system_library(project, folder) {
            let what = format!("{folder} is pure and links {library}");
            let remedy = format!("see why: cargo tree --edges normal --invert {library}");
            found.push(Diagnostic::new(PAGE, row.line, what, remedy));
        }
    }
    found
}

/// The table by folder. A row without a number has the floor of the row above it.
fn rows(text: &str) -> BTreeMap<String, Row> {
    let mut floor = 0;
    let mut rows = BTreeMap::new();
    let table = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("| floor |"));
    for (at, line) in table.take_while(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, name, kind, ..] = cells[..] else { continue };
        floor = number.parse().unwrap_or(floor);
        if let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
            let row = Row { line: at + 1, floor, is_pure: kind.starts_with("pure") };
            rows.insert(name.to_owned(), row);
        }
    }
    rows
}

/// Crates without a row, rows without a crate, and arrows that do not go down. A crate that is
/// not below `crates` is a tool: it may use any, and none uses it but its like.
fn violations(rows: &BTreeMap<String, Row>, metadata: &Value) -> Vec<Diagnostic> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let mut members: BTreeMap<&str, (&str, &Value)> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let name = package["name"].as_str().unwrap_or_default();
        members.insert(name, (manifest, package));
    }
    let folder = |manifest: &str| -> Option<String> {
        let folder = manifest.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some(folder.to_owned())
    };
    let mut found = Vec::new();
    for (manifest, package) in members.values() {
        let Some(user) = folder(manifest) else { continue };
        let mut report = |what: String, remedy: &str| {
            found.push(Diagnostic::new(manifest, 1, what, remedy));
        };
        let Some(row) = rows.get(&user) else {
            report(format!("{user} has no row in {PAGE}"), "add one, on the floor it belongs to");
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // Tests may use any crate: others do not link them.
        for dependency in dependencies.filter(|dependency| dependency["kind"] != "dev") {
            let name = dependency["name"].as_str().unwrap_or_default();
            let Some((manifest, _)) = members.get(name) else {
                if row.is_pure && !PURE_MAY_USE.split(' ').any(|known| known == name) {
                    report(format!("{user} is pure and uses {name}"), "do without");
                }
                continue;
            };
            let used = folder(manifest).and_then(|folder| rows.get(&folder));
            if used.is_none_or(|used| used.floor >= row.floor) {
                let what = format!("{user} is on floor {} and may not use {name}", row.floor);
                report(what, "move what both need to a lower floor");
            }
        }
    }
    let folders: Vec<String> =
        members.values().filter_map(|(manifest, _)| folder(manifest)).collect();
    for (name, row) in rows.iter().filter(|(name, _)| !folders.contains(name)) {
        let what = format!("there is no crate {name}");
        found.push(Diagnostic::new(PAGE, row.line, what, "remove its row"));
    }
    found
}

/// The first system library that a pure crate links.
fn system_library(project: &Project, folder: &str) -> Option<String> {
    let mut tree = project.cargo();
    tree.args(["tree", "--quiet", "--offline", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--edges", "normal,no-proc-macro", "--target", TARGET, "--manifest-path"]);
    let output = tree.arg(project.path(&format!("crates/{folder}/Cargo.toml"))).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names = text.lines().filter_map(|line| line.split(' ').next());
    names.find(|name| SYSTEM.split(' ').any(|system| system == *name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "| floor | crate | | job |\n| --- | --- | --- | --- |\n\
        | 1 | `low` | pure, `no_std` | x |\n| | `beside` | | x |\n| 2 | `high` | thin | x |\n\n\
        | 3 | `other` | | no row |\n";

    fn found(arrows: &[(&str, &str, &str)]) -> Vec<String> {
        let package = |folder: &str| {
            let name = folder.rsplit('/').next().unwrap();
            let uses = arrows.iter().filter(|(from, _, _)| *from == name);
            let uses: Vec<_> =
                uses.map(|(_, to, kind)| json!({ "name": to, "kind": kind })).collect();
            json!({ "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml"),
                    "dependencies": uses })
        };
        let folders = ["crates/low", "crates/beside", "crates/high", "validation/tool"];
        let metadata = json!({ "workspace_root": "/w", "packages": folders.map(package) });
        violations(&rows(TABLE), &metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_go_down() {
        let fine = [("high", "low", ""), ("tool", "high", ""), ("high", "libc", "")];
        assert_eq!(found(&fine), Vec::<String>::new());
        assert_eq!(found(&[("beside", "high", "dev")]), Vec::<String>::new());
        for (from, to, floor) in [("beside", "high", 1), ("beside", "low", 1), ("high", "tool", 2)]
        {
            let expected = format!(
                "crates/{from}/Cargo.toml:1: {from} is on floor {floor} and may not use {to}; \
                 move what both need to a lower floor"
            );
            assert_eq!(found(&[(from, to, "")]), [expected]);
        }
        let impure = found(&[("low", "libc", ""), ("low", "serde", "")]);
        assert_eq!(impure, ["crates/low/Cargo.toml:1: low is pure and uses libc; do without"]);
    }

    #[test]
    fn crates_and_rows_belong_together() {
        let metadata = json!({ "workspace_root": "/w", "packages": [
            { "name": "new", "manifest_path": "/w/crates/new/Cargo.toml" },
            { "name": "low", "manifest_path": "/w/crates/low/Cargo.toml" },
            { "name": "high", "manifest_path": "/w/crates/high/Cargo.toml" },
        ] });
        let found = violations(&rows(TABLE), &metadata);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/new/Cargo.toml:1: new has no row in ARCHITECTURE.md; add one, on the \
                 floor it belongs to",
                "ARCHITECTURE.md:4: there is no crate beside; remove its row"
            ]
        );
    }
}
