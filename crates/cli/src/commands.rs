//! The commands, one file each: their options, and what they run.

mod bench;
mod capture;
mod completions;
mod doctor;
mod drift;
mod export;
mod gate;
pub(crate) mod helpers;
mod keep;
#[cfg_attr(not(target_arch = "x86_64"), path = "commands/lab_elsewhere.rs")]
mod lab;
mod latency;
mod schema;
mod status;
mod tell;
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

// Their help texts are those of the `Args`: a text here would hide them.
#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::Args),
    Bench(bench::Args),
    Drift(drift::Args),
    Watch(watch::Args),
    Keep(Box<keep::Args>),
    Status(status::Args),
    Gate(gate::Args),
    Tell(tell::Args),
    Export(export::Args),
    Lab(Box<lab::Args>),
    Latency(latency::Args),
    Capture(capture::Args),
    Completions(completions::Args),
    Schema(schema::Args),
    #[command(flatten)]
    Helper(helpers::Helper),
}

/// Runs the command.
pub(crate) fn run(command_line: CommandLine) -> Result<ExitCode, CliError> {
    match command_line.command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Drift(args) => drift::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Keep(args) => keep::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Tell(args) => tell::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Helper(helper) => helpers::run(&helper),
    }
}

#[cfg(test)]
mod tests;
