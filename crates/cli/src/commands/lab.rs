//! `parachron lab`: experiments on the clock of a virtual machine, from inside
//! and outside at once.

mod checks;
mod guest_image;
mod options;
mod remedies;
pub(crate) mod report;
mod session;
mod tables;
mod text;

use std::process::ExitCode;

use crate::error::CliError;
use clap::Subcommand;
use options::ExperimentOptions;

/// Test the clock of a small virtual machine from inside and outside.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<LabCommand>,
    #[command(flatten)]
    experiments: ExperimentOptions,
}

/// What is no experiment of the lab's own guest.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Write the lab's guest to a file, to boot it elsewhere
    GuestImage(guest_image::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = match &args.other {
        None => args.experiments.plan()?,
        Some(LabCommand::GuestImage(args)) => return guest_image::run(args),
    };
    session::run(&plan)
}

#[cfg(test)]
mod tests;
