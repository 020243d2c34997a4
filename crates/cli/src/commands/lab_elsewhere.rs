//! `parachron lab`, where there is no such virtual machine.

use std::process::ExitCode;

use crate::error::CliError;

/// Experiments on the clock of a virtual machine: only on x86-64
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Not used here
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

pub(crate) fn run(_: &Args) -> Result<ExitCode, CliError> {
    let cause =
        "the lab runs only on x86-64: other processors have no kvm-clock, Hyper-V page or TSC";
    let remedy = "run `parachron lab` on an x86-64 machine";
    Err(CliError::Failed { cause: cause.into(), remedy: remedy.into() })
}
