//! `cargo xtask machines`: the crate `zoo`.

use std::process::ExitCode;

use crate::outside;
use crate::project::Project;

/// Options of the test machines.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Its options; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    arguments: Vec<String>,
}

pub(crate) fn run(project: &Project, args: &Args) -> ExitCode {
    outside::pass_through(
        project.cargo().args(["run", "--quiet", "--package", "zoo", "--"]).args(&args.arguments),
    )
}
