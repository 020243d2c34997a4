//! `parachron completions`: what a shell offers at the tab key.

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
    // By way of memory: the generators panic where they cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut typed_by_people(), "parachron", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The command line without its hidden commands: the generators offer those
/// too.
fn typed_by_people() -> Command {
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
    fn every_shell_is_offered_what_people_type_and_no_more() {
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
