//! `cargo xtask docs`: generates what is committed and made from the sources: the guide's table of
//! rules, the security policies of the two pages, the two C headers. Then it builds the API
//! documentation.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// The packages that have such files.
const PACKAGES: &[&str] = &["parachron", "parachron-exporter", "parachron-pvclock-c"];

/// Their tests that compare such a file with its source, and rewrite it if `UPDATE` is set.
const FRESHNESS: &[&str] =
    &["the_guides_page", "the_page_allows", "the_page_may", "header_is_up_to_date"];

pub(crate) fn run(project: &Project) -> ExitCode {
    let rewritten = outside::pass_through(
        project
            .cargo()
            .args(["test", "--quiet"])
            .args(PACKAGES.iter().flat_map(|package| ["--package", package]))
            .arg("--")
            .args(FRESHNESS)
            .env("UPDATE", "1"),
    );
    if rewritten != ExitCode::SUCCESS {
        return rewritten;
    }
    outside::pass_through(project.cargo().args(["doc", "--workspace", "--no-deps"]))
}
