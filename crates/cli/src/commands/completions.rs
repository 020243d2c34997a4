//! `parachron completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::commands::CommandLine;
use crate::error::CliError;
use crate::output;

/// Print a shell's completion script.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    output::text(&script(args.shell))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    // Into memory first: the generators panic where they cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_helpers(), "parachron", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The command line without its hidden commands: the generators offer those
/// too.
fn without_helpers() -> Command {
    let all = CommandLine::command();
    Command::new("parachron")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_offers_all_commands_but_the_hidden() {
        let command_line = CommandLine::command();
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in command_line.get_subcommands() {
                let (name, typed) = (command.get_name(), !command.is_hide_set());
                assert_eq!(script.contains(name), typed, "{shell}: {name}");
            }
        }
    }
}
