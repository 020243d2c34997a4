//! Who may use whom. A crate is a floor and arrows only go down: this table
//! is ARCHITECTURE.md as a program. A new row or arrow needs a record in
//! docs/decisions.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// One floor.
struct Floor {
    name: &'static str,
    /// Crates of this workspace it may use.
    uses: &'static [&'static str],
    /// Crates from outside it may use.
    outside: Outside,
    /// A top floor: nothing may use it, tests neither.
    top: bool,
}

/// What a floor may use from outside.
enum Outside {
    /// What it needs.
    Any,
    /// Only these: a pure crate stays pure when its dependencies are.
    Only(&'static [&'static str]),
}

const fn floor(name: &'static str, uses: &'static [&'static str], outside: Outside) -> Floor {
    Floor { name, uses, outside, top: false }
}

const fn top(name: &'static str, uses: &'static [&'static str]) -> Floor {
    Floor { name, uses, outside: Outside::Any, top: true }
}

const LIBRARIES: &[&str] = &[
    "parachron-clock",
    "parachron-daemon",
    "parachron-disruptions",
    "parachron-doctor",
    "parachron-lab",
    "parachron-guest",
    "parachron-instruments",
    "parachron-keeper",
    "parachron-vmm",
    "parachron-facts",
    "parachron-units",
    "parachron-platform",
    "parachron-host",
    "pvclock",
    "parachron-records",
];

const FLOORS: &[Floor] = &[
    floor("parachron-units", &[], Outside::Only(&[])),
    floor(
        "parachron-facts",
        &["parachron-units", "pvclock"],
        Outside::Only(&["schemars", "serde", "thiserror"]),
    ),
    floor("pvclock", &["parachron-units"], Outside::Only(&[])),
    floor(
        "parachron-pvclock-c",
        &["parachron-units", "parachron-facts", "pvclock"],
        Outside::Only(&[]),
    ),
    floor(
        "parachron-clock",
        &["parachron-units", "parachron-facts", "pvclock"],
        Outside::Only(&["libc", "raw-cpuid"]),
    ),
    floor(
        "parachron-clock-c",
        &["parachron-units", "parachron-facts", "parachron-clock"],
        Outside::Only(&[]),
    ),
    floor(
        "parachron-instruments",
        &["pvclock"],
        Outside::Only(&["hdrhistogram", "schemars", "serde"]),
    ),
    floor("parachron-platform", &["parachron-units", "parachron-facts", "pvclock"], Outside::Any),
    floor(
        "parachron-records",
        &["parachron-units", "parachron-facts", "parachron-instruments"],
        Outside::Any,
    ),
    floor(
        "parachron-host",
        &["parachron-units", "parachron-facts", "pvclock"],
        Outside::Only(&["thiserror"]),
    ),
    floor(
        "parachron-guest",
        &["parachron-units", "parachron-facts", "pvclock"],
        Outside::Only(&[]),
    ),
    floor(
        "parachron-vmm",
        &["parachron-guest", "parachron-platform", "parachron-host", "pvclock"],
        Outside::Any,
    ),
    floor(
        "parachron-lab",
        &[
            "parachron-guest",
            "parachron-instruments",
            "parachron-vmm",
            "parachron-platform",
            "parachron-host",
            "pvclock",
        ],
        Outside::Any,
    ),
    floor(
        "parachron-doctor",
        &["parachron-platform", "parachron-instruments"],
        Outside::Only(&["schemars", "serde"]),
    ),
    floor(
        "parachron-disruptions",
        &["parachron-platform", "parachron-instruments", "pvclock"],
        Outside::Only(&["schemars", "serde"]),
    ),
    floor(
        "parachron-keeper",
        &[
            "parachron-units",
            "parachron-facts",
            "parachron-disruptions",
            "parachron-instruments",
            "pvclock",
        ],
        Outside::Only(&["schemars", "serde"]),
    ),
    floor(
        "parachron-daemon",
        &[
            "parachron-units",
            "parachron-facts",
            "parachron-linux",
            "parachron-platform",
            "parachron-disruptions",
            "parachron-keeper",
            "pvclock",
        ],
        Outside::Only(&["thiserror"]),
    ),
    top("parachron", LIBRARIES),
    top("bench", LIBRARIES),
    top("fuzz", LIBRARIES),
    top("e2e", LIBRARIES),
    top("xtask", &[]),
];

/// Checks the workspace as cargo sees it.
pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let asked = project
        .cargo()
        .args(["metadata", "--no-deps", "--format-version", "1", "--quiet"])
        .output();
    let complaint = |what: String| {
        vec![Diagnostic::new("Cargo.toml", 1, what, "run `cargo metadata` and mend its complaint")]
    };
    match asked {
        Err(error) => complaint(format!("cannot run cargo metadata: {error}")),
        Ok(output) if !output.status.success() => {
            complaint(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Err(error) => complaint(format!("cargo metadata is not JSON: {error}")),
            Ok(metadata) => judge(&metadata),
        },
    }
}

/// Holds cargo's metadata against the table.
fn judge(metadata: &Value) -> Vec<Diagnostic> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let members: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["name"].as_str()?, package))).collect();
    let mut diagnostics = Vec::new();
    for (name, package) in &members {
        let manifest = package["manifest_path"].as_str().unwrap_or("Cargo.toml");
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let Some(floor) = FLOORS.iter().find(|floor| floor.name == *name) else {
            diagnostics.push(Diagnostic::new(
                manifest,
                1,
                format!("crate {name} has no row in the table of floors"),
                "add one to xtask/src/arrows.rs, with a record in docs/decisions",
            ));
            continue;
        };
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        for dependency in dependencies {
            let Some(used) = dependency["name"].as_str() else { continue };
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if let Some((what, remedy)) =
                complaint(floor, used, for_tests, members.contains_key(used))
            {
                diagnostics.push(Diagnostic::new(manifest, 1, what, remedy));
            }
        }
    }
    diagnostics
}

/// What is wrong with one arrow, and the remedy.
fn complaint(
    floor: &Floor,
    used: &str,
    for_tests: bool,
    ours: bool,
) -> Option<(String, &'static str)> {
    let name = floor.name;
    if for_tests {
        let upward = FLOORS.iter().any(|other| other.name == used && other.top);
        return upward.then(|| {
            (format!("tests of {name} use {used}, the top floor"), "move the test to e2e")
        });
    }
    if ours {
        return (!floor.uses.contains(&used)).then(|| {
            (
                format!("{name} may not use {used}: arrows only go down"),
                "move the shared part to a lower floor",
            )
        });
    }
    match floor.outside {
        Outside::Only(allowed) if !allowed.contains(&used) => Some((
            format!("{name} may not use {used} from outside: it is to stay pure"),
            "do without, or move what needs it to platform",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
