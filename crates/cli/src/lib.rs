//! Parachron's command line: time in virtual machines.

mod commands;
mod error;
mod output;
mod removed;

use std::process::ExitCode;

use clap::{Command, CommandFactory, Parser};

use commands::CommandLine;

/// Runs the command that this process was started with.
pub fn run() -> ExitCode {
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => match removed::failure(&error) {
            Some(failure) => return failure.report(),
            None => error.exit(),
        },
    };
    output::table::fit_terminal();
    match commands::run(command_line) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

/// The commands and their options, for the manual pages.
pub fn command() -> Command {
    CommandLine::command()
}
