//! What is inside the programs: every crate with version and licence, as a CycloneDX list, and the
//! licences' texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::{PROGRAMS, run_command};
use crate::project::Project;

/// Writes the list and the texts of both programs for a processor into a folder.
pub(super) fn write(project: &Project, target: &str, folder: &Path) -> io::Result<()> {
    let mut cargo = project.cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&run_command(project, &mut cargo)?)?;
    let used = linked(&metadata);
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut packages: Vec<&Value> =
        packages.iter().filter(|one| used.contains(field(one, "id"))).collect();
    packages.sort_by_key(|one| (field(one, "name"), field(one, "version")));
    fs::write(folder.join("sbom.cdx.json"), sbom(&packages)?)?;
    fs::write(folder.join("licences.txt"), licences(&packages))
}

/// The packages that are linked into the programs, without what only builds or tests them.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let by_id: BTreeMap<&str, &Value> =
        nodes.iter().map(|node| (field(node, "id"), node)).collect();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_program = |one: &&Value| PROGRAMS.iter().any(|(_, root, _)| field(one, "name") == *root);
    let roots = packages.iter().filter(is_program);
    let mut waiting: Vec<&str> = roots.map(|one| field(one, "id")).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !used.insert(id) {
            continue;
        }
        let needs = by_id.get(id).and_then(|node| node["deps"].as_array());
        for need in needs.into_iter().flatten() {
            let kinds = need["dep_kinds"].as_array().map_or(&[][..], Vec::as_slice);
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(field(need, "pkg"));
            }
        }
    }
    used
}

/// CycloneDX 1.5 (ECMA-424).
fn sbom(packages: &[&Value]) -> io::Result<String> {
    let component = |one: &&Value| {
        let (name, version) = (field(one, "name"), field(one, "version"));
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": licence(one) }],
        })
    };
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "name": "parachron", "version": env!("CARGO_PKG_VERSION"),
        } },
        "components": packages.iter().map(component).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Each crate's licence, and the texts, each once.
fn licences(packages: &[&Value]) -> String {
    let mut text = String::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for one in packages {
        let name = format!("{} {}", field(one, "name"), field(one, "version"));
        text += &format!("{name}: {}\n", licence(one));
        let folder = Path::new(field(one, "manifest_path")).parent().unwrap_or(Path::new(""));
        for licence in texts(folder) {
            seen.entry(licence).or_default().push_str(&format!("{name}; "));
        }
    }
    for (licence, names) in seen {
        let names = names.trim_end_matches("; ");
        text += &format!("\n{}\nOf {names}:\n\n{}\n", "=".repeat(72), licence.trim_end());
    }
    text
}

/// The texts of licences in a crate's folder.
fn texts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_licence = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICEN", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start))
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| is_licence(path));
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Its expression; older crates separate by a slash.
fn licence(package: &Value) -> String {
    field(package, "license").replace('/', " OR ").replace("  ", " ")
}

fn field<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_builds_is_not() {
        let dep = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                { "id": "p", "name": "parachron" },
                { "id": "d", "name": "parachron-daemon" },
                { "id": "x", "name": "xtask" },
            ],
            "resolve": { "nodes": [
                { "id": "d", "deps": [dep("c", Value::Null)] },
                { "id": "p", "deps": [dep("a", Value::Null), dep("b", json!("build"))] },
                { "id": "a", "deps": [dep("c", Value::Null), dep("x", json!("dev"))] },
                { "id": "x", "deps": [dep("e", Value::Null)] },
            ] },
        });
        assert_eq!(linked(&metadata).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "p"]);
        assert_eq!(licence(&json!({ "license": "MIT/Apache-2.0" })), "MIT OR Apache-2.0");
    }
}
