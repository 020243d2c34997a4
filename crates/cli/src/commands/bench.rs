//! `parachron bench`.

use std::process::ExitCode;

use crate::error::CliError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<ExitCode, CliError> {
    Ok(ExitCode::SUCCESS)
}
