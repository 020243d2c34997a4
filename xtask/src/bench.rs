//! `cargo xtask bench NAME`: the bench crate, built for release.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// Which benchmark, and what it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which benchmark: `read` compares reading the clock with the peers
    name: String,
    /// Handed on to it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    outside::pass_through(
        project
            .cargo()
            .args(["run", "--quiet", "--release", "--package", "bench", "--"])
            .arg(&args.name)
            .args(&args.rest),
    )
}
