//! Parachron's command line: time in virtual machines.

mod commands;
mod error;
mod help;
mod output;

use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches};

use commands::CommandLine;

/// Runs the command that this process was started with.
pub fn run() -> ExitCode {
    let parsed = help::complete(command(), "parachron")
        .try_get_matches()
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    let command_line = match parsed {
        Ok(command_line) => command_line,
        Err(error) => match error::removal(&error) {
            Some(failure) => return failure.report(),
            None => return error::usage(&error),
        },
    };
    output::table::fit_terminal();
    match commands::run(command_line) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

pub use help::{HelpEnd, end as help_end};

/// The commands and their options, for the manual pages.
pub fn command() -> Command {
    CommandLine::command()
}
