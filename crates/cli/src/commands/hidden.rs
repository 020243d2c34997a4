//! Commands this program runs itself as, in a process of its own: the pipe
//! partner and the guard of `bench`. Nobody types them.

use std::process::{Command, ExitCode};

use clap::Subcommand;
use platform::clocksource_switch::Switchboard;
use platform::pipe_pair;
use platform::restore_guard::{self, Watch};

use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Hidden {
    /// Send back what comes through the pipe, for `bench --switches`
    #[command(hide = true)]
    PipePartner,
    /// Restore the clocksource when the pipe ends, for `bench --each-source`
    #[command(hide = true)]
    RestoreGuard {
        /// What to restore
        source: String,
    },
}

/// The command that runs this program as `hidden`: the same file even if the
/// program was replaced since it started.
pub(crate) fn command(hidden: &Hidden) -> Command {
    let mut command = Command::new("/proc/self/exe");
    match hidden {
        Hidden::PipePartner => command.arg("pipe-partner"),
        Hidden::RestoreGuard { source } => command.args(["restore-guard", source]),
    };
    command
}

pub(crate) fn run(hidden: &Hidden) -> Result<ExitCode, CliError> {
    match hidden {
        Hidden::PipePartner => {
            // Unbuffered: each token must leave at once. Rust's own standard
            // output flushes at line ends only.
            let (input, output) = (std::io::stdin().lock(), unbuffered_output()?);
            pipe_pair::echo(input, output).map_err(|error| CliError::Failed {
                cause: error.to_string(),
                remedy: "this is half of `parachron bench --switches`; run that".into(),
            })?;
        }
        Hidden::RestoreGuard { source } => guard(source)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn guard(source: &str) -> Result<(), CliError> {
    let (input, output) = (std::io::stdin().lock(), unbuffered_output()?);
    match restore_guard::stand(&Switchboard::live(), source, input, output) {
        Ok(Watch::Done | Watch::Declined) => {}
        Ok(Watch::Abandoned) => {
            // Whoever started this has gone, its terminal perhaps too.
            let note = format!("parachron: bench ended early; the clocksource is {source} again\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
        }
        Err(error) => {
            return Err(CliError::Failed {
                cause: format!("clocksource {source} is not restored: {error}"),
                remedy: format!(
                    "echo {source} > \
                     /sys/devices/system/clocksource/clocksource0/current_clocksource, as root"
                ),
            });
        }
    }
    Ok(())
}

fn unbuffered_output() -> Result<std::fs::File, CliError> {
    use std::os::fd::AsFd;
    Ok(std::io::stdout().as_fd().try_clone_to_owned()?.into())
}
