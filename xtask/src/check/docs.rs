//! Documentation builds, and its links work: of all for this processor, and of what shows it
//! for others as docs.rs does, by the targets in its manifest.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{package, targets};
use crate::outside::Outcome;
use crate::project::Project;

pub(super) fn check(project: &Project) -> Outcome {
    // Private items too: their links are for the developers.
    let outcome = built(project, &["--workspace", "--document-private-items"]);
    if outcome != Outcome::Passed {
        return outcome;
    }
    let metadata = match package::metadata(project) {
        Ok(metadata) => metadata,
        Err(why) => return Outcome::Failed(why),
    };
    let mut missing = Vec::new();
    for (target, packages) in elsewhere(&metadata) {
        if !targets::is_installed(target) {
            missing.push(target);
            continue;
        }
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        let arguments: Vec<&str> = ["--target", target].into_iter().chain(packages).collect();
        if let Outcome::Failed(output) = built(project, &arguments) {
            return Outcome::Failed(format!("{target}:\n{output}"));
        }
    }
    targets::or_missing(&missing)
}

fn built(project: &Project, arguments: &[&str]) -> Outcome {
    let mut doc = project.cargo();
    doc.args(["doc", "--quiet", "--no-deps"]).args(arguments);
    Outcome::of(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Targets of other processors, and the packages whose documentation docs.rs builds for each.
fn elsewhere(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let targets = package["metadata"]["docs"]["rs"]["targets"].as_array();
        for target in targets.into_iter().flatten().filter_map(Value::as_str) {
            if !target.starts_with(std::env::consts::ARCH) {
                found.entry(target).or_default().extend(package["name"].as_str());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_built_for_what_their_manifest_names() {
        let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let package = |name: &str, targets: &[&str]| json!({ "name": name, "metadata": { "docs": { "rs": { "targets": targets } } } });
        let metadata = json!({ "packages": [
            package("a", &[&here, "s390x-unknown-linux-gnu"]),
            package("b", &[&here]),
            package("c", &["s390x-unknown-linux-gnu"]),
            { "name": "d", "metadata": null },
        ] });
        let expected = BTreeMap::from([("s390x-unknown-linux-gnu", vec!["a", "c"])]);
        assert_eq!(elsewhere(&metadata), expected);
    }
}
