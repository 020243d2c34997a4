//! The libraries can be packaged for crates.io: metadata, versions of their
//! dependencies, no file from outside their folders.

use crate::outside::Outcome;
use crate::project::Project;

pub(super) fn check(project: &Project) -> Outcome {
    let mut command = project.cargo();
    // Packages are listed and their manifests written; to build each from its
    // package would take as long as all tests.
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    Outcome::of(&mut command)
}
