//! `parachron lab`: experiments on the clock of a virtual machine, from inside
//! and outside at once.

mod checks;
mod guest_image;
mod linux;
mod options;
mod remedies;
pub(crate) mod report;
mod session;
mod summary;
mod tables;
mod text;

use std::process::ExitCode;

use crate::error::CliError;
use clap::Subcommand;
use options::{All, ExperimentOptions};

/// Test the clock of a small virtual machine from inside and outside.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    one: Option<LabCommand>,
    #[command(flatten)]
    all: All,
}

/// One experiment, or the guest.
#[derive(Debug, Subcommand)]
enum LabCommand {
    #[command(flatten)]
    Experiment(ExperimentOptions),
    /// Boot a stock Linux kernel on each provider: clock source, time, log
    Linux(linux::Args),
    /// Write the lab's guest to a file, to boot it elsewhere
    GuestImage(guest_image::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = match &args.one {
        None => args.all.plan(),
        Some(LabCommand::Experiment(options)) => options.plan(),
        Some(LabCommand::Linux(args)) => args.plan()?,
        Some(LabCommand::GuestImage(args)) => return guest_image::run(args),
    };
    session::run(&plan)
}

#[cfg(test)]
mod tests;
