//! The commands, one file each: their options, and what they run.

mod bench;
mod capture;
mod clocks;
mod completions;
mod doctor;
mod drift;
pub(crate) mod hidden;
mod lab;
mod man;
mod schema;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::CliError;

/// Time in virtual machines: diagnose it, measure it, keep it right.
#[derive(Debug, Parser)]
#[command(name = "parachron", version, arg_required_else_help = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what is wrong with this machine's time, and what to do about it
    Doctor(doctor::Args),
    /// Measure what reading each clock costs
    Bench(bench::Args),
    /// List all clock sources in order of cost
    Clocks(clocks::Args),
    /// Measure how far each clock drifts from a reference
    Drift(drift::Args),
    /// Show updates, steps and changes of the clock as they happen
    Watch(watch::Args),
    /// Put the clock of a virtual machine of our own to the test
    Lab(Box<lab::Args>),
    /// Save what this machine says about its clocks, to be read elsewhere
    Capture(capture::Args),
    /// Print a shell's completion script
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
    /// Print the JSON schema of a command's output
    Schema(schema::Args),
    #[command(flatten)]
    Hidden(hidden::Hidden),
}

/// Runs the command asked for.
pub(crate) fn run(command_line: CommandLine) -> Result<ExitCode, CliError> {
    match command_line.command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Clocks(args) => clocks::run(&args),
        Command::Drift(args) => drift::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Hidden(hidden) => hidden::run(&hidden),
    }
}
