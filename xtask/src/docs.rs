//! `cargo xtask docs`: generates schemas, tables and headers again.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// The tests that compare a generated file with its source, and rewrite it if
/// `UPDATE` is set: schemas, the guide's table of rules, the C header.
const FRESHNESS: &[&str] = &["the_guides_page", "header_is_up_to_date"];

pub(crate) fn run(project: &Project) -> ExitCode {
    let rewritten = outside::pass_through(
        project
            .cargo()
            .args(["test", "--quiet", "--package", "parachron"])
            .args(["--package", "parachron-pvclock-c", "--package", "parachron-clock-c", "--"])
            .args(FRESHNESS)
            .env("UPDATE", "1"),
    );
    if rewritten != ExitCode::SUCCESS {
        return rewritten;
    }
    outside::pass_through(project.cargo().args(["doc", "--workspace", "--no-deps"]))
}
