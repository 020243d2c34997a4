//! `parachron lab`: experiments on the clock of a virtual machine, from inside
//! and outside at once.

mod guest_image;
mod options;
mod session;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use lab::results::Report;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::bench::report::MachineIdentity;
use crate::commands::lab::options::ExperimentOptions;
use crate::error::CliError;

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

/// The report of `parachron lab`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabReport {
    /// Version of Parachron.
    pub(crate) version: String,
    /// Which host.
    pub(crate) machine: MachineIdentity,
    /// The experiments.
    #[serde(flatten)]
    pub(crate) lab: Report,
}

#[cfg(test)]
mod tests;
