//! Parachron: time in virtual machines.

mod commands;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command_line = commands::CommandLine::parse();
    output::table::fit_terminal();
    match commands::run(command_line) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
