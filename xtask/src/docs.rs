//! `cargo xtask docs`: what is generated, generated anew.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// The tests that hold a generated file to its origin, and rewrite it where
/// `UPDATE` is set: schemas, the guide's table of rules, the C header.
const FRESHNESS: &[&str] = &["published_schemas", "the_guides_page", "header_is_up_to_date"];

pub(crate) fn run(project: &Project) -> ExitCode {
    let rewritten = outside::pass_through(
        project
            .cargo()
            .args([
                "test",
                "--quiet",
                "--package",
                "parachron",
                "--package",
                "parachron-pvclock-c",
                "--",
            ])
            .args(FRESHNESS)
            .env("UPDATE", "1"),
    );
    if rewritten != ExitCode::SUCCESS {
        return rewritten;
    }
    outside::pass_through(project.cargo().args(["doc", "--workspace", "--no-deps"]))
}
