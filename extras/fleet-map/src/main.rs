//! `fleet-map`: the clocks of many machines, compared in pairs.

mod commands;
mod error;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Compare the clocks of many machines in pairs, and find the wrong ones without a reference.
#[derive(Debug, Parser)]
#[command(name = "fleet-map", version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

// Their help texts are those of the `Args`: a text here would hide them.
#[derive(Debug, Subcommand)]
enum Command {
    Pair(commands::pair::Args),
    Map(commands::map::Args),
    /// Print the JSON schema of `map --format json`
    Schema,
}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Pair(args) => commands::pair::run(&args),
        Command::Map(args) => commands::map::run(&args),
        Command::Schema => commands::map::schema(),
    };
    result.unwrap_or_else(|error| error.report())
}
