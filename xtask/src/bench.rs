//! `cargo xtask bench NAME`: the bench crate, built for release.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// The benchmark and its options.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which benchmark, and its options; without a name, lists the benchmarks
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "NAME")]
    arguments: Vec<String>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    outside::pass_through(
        project
            .cargo()
            .args(["run", "--quiet", "--release", "--package", "bench", "--"])
            .args(&args.arguments),
    )
}
