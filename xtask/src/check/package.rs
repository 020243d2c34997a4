//! The libraries can be packaged for crates.io: they have the metadata, their
//! dependencies have versions, and nothing that is published needs a crate
//! that is not. Those that other projects adopt are built from their packages too.

use serde_json::Value;

use crate::outside::Outcome;
use crate::project::Project;

/// What VMMs, guests and hypervisors adopt, and the folders below `crates`.
pub(crate) const ADOPTED: [(&str, &str); 3] =
    [("pvclock", "pvclock"), ("pvclock-host", "host"), ("pvclock-kvm", "host/kvm")];

pub(crate) fn check(project: &Project) -> Outcome {
    let metadata = match metadata(project) {
        Ok(metadata) => metadata,
        Err(why) => return Outcome::Failed(why),
    };
    let mut command = project.cargo();
    // Building each crate from its package would take as long as all tests.
    // Offline: a built workspace has all that it needs.
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty"]);
    command.args(["--offline", "--quiet"]);
    for name in unpublished(&metadata) {
        command.args(["--exclude", name]);
    }
    let packaged = Outcome::of(&mut command);
    if packaged != Outcome::Passed {
        return packaged;
    }
    let mut command = project.cargo();
    command.args(["package", "--allow-dirty", "--offline", "--quiet"]);
    Outcome::of(command.args(ADOPTED.iter().flat_map(|(name, _)| ["--package", name])))
}

/// What cargo says of the workspace, or why it says nothing.
pub(crate) fn metadata(project: &Project) -> Result<Value, String> {
    let mut command = project.cargo();
    match command.args(["metadata", "--no-deps", "--format-version", "1"]).output() {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}\n")),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cannot run cargo metadata: {error}\n")),
    }
}

/// The packages with `publish = false`.
fn unpublished(metadata: &Value) -> Vec<&str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let nowhere = |package: &&Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    packages.filter(nowhere).filter_map(|package| package["name"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_that_are_published_nowhere_are_left_out() {
        let metadata = json!({ "packages": [
            { "name": "a", "publish": null },
            { "name": "b", "publish": [] },
            { "name": "c", "publish": ["crates-io"] },
        ] });
        assert_eq!(unpublished(&metadata), ["b"]);
    }
}
