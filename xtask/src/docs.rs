//! `cargo xtask docs`: what is generated, generated anew.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> ExitCode {
    let rewritten = outside::pass_through(
        project
            .cargo()
            .args(["test", "--quiet", "--package", "parachron", "schema"])
            .env("UPDATE", "1"),
    );
    if rewritten != ExitCode::SUCCESS {
        return rewritten;
    }
    outside::pass_through(project.cargo().args(["doc", "--workspace", "--no-deps"]))
}
