//! `parachron man`: the manual pages, generated from the commands' options.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::commands::CommandLine;
use crate::error::CliError;
use crate::output;

/// Write the manual pages.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write them to; created where it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .map_err(|error| CliError::Write { path: folder.clone(), error })?;
    let pages = pages();
    for (name, page) in &pages {
        output::file(&folder.join(name), page)?;
    }
    output::text(&format!("{} pages written to {}\n", pages.len(), folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// File names and contents: one for the program, one for each command.
fn pages() -> Vec<(String, String)> {
    let mut program = CommandLine::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages);
    pages
}

fn add_pages(command: &Command, pages: &mut Vec<(String, String)>) {
    let page = Man::new(command.clone())
        .source(format!("parachron {}", env!("CARGO_PKG_VERSION")))
        .manual("Parachron");
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    if page.render(&mut text).is_ok() {
        pages.push((page.get_filename(), String::from_utf8_lossy(&text).into_owned()));
    }
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(command, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_but_the_hidden_has_its_page() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "parachron.1");
        for command in CommandLine::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(names.contains(&&*format!("parachron-{}.1", command.get_name())), "{names:?}");
        }
        for (name, text) in &pages {
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
        }
        assert!(!names.iter().any(|name| name.contains("guard")), "{names:?}");
    }
}
