//! Commands that `latency` and `bench` run in processes of their own: the echo at the end
//! of a pipe, and the guard. Nobody types them.

use std::process::{Command, ExitCode};

use clap::Subcommand;
use inspect::clocksource_switch::Switchboard;
use inspect::pipe_pair;
use inspect::restore_guard::{self, GuardOutcome};

use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Helper {
    /// Send back what arrives through the pipe, for `latency`
    #[command(hide = true)]
    PipeEcho,
    /// Restore the clocksource when the pipe closes, for `bench --each-source`
    #[command(hide = true)]
    RestoreGuard {
        /// The clocksource to restore
        source: String,
    },
}

/// The command that runs this program as `helper`: the same file, even if the
/// program was replaced since it started.
pub(crate) fn command(helper: &Helper) -> Command {
    let mut command = Command::new("/proc/self/exe");
    match helper {
        Helper::PipeEcho => command.arg("pipe-echo"),
        Helper::RestoreGuard { source } => command.args(["restore-guard", source]),
    };
    command
}

pub(crate) fn run(helper: &Helper) -> Result<ExitCode, CliError> {
    match helper {
        Helper::PipeEcho => {
            // Unbuffered: each token must leave at once. Rust's own standard
            // output flushes at line ends only.
            let (input, output) = (std::io::stdin().lock(), unbuffered_output()?);
            pipe_pair::echo(input, output).map_err(|error| CliError::Failed {
                cause: error.to_string(),
                remedy: "run `parachron latency`, which starts this helper".into(),
            })?;
        }
        Helper::RestoreGuard { source } => guard(source)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn guard(source: &str) -> Result<(), CliError> {
    let (input, output) = (std::io::stdin().lock(), unbuffered_output()?);
    match restore_guard::restore_on_eof(&Switchboard::live(), source, input, output) {
        Ok(GuardOutcome::Done | GuardOutcome::Declined) => {}
        Ok(GuardOutcome::Abandoned) => {
            // The parent is gone, its terminal perhaps too.
            let note = format!("parachron: bench ended early; clocksource {source} is restored\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
        }
        Err(error) => {
            return Err(CliError::Failed {
                cause: format!("cannot restore clocksource {source}: {error}"),
                remedy: format!(
                    "run `echo {source} > \
                     /sys/devices/system/clocksource/clocksource0/current_clocksource` as root"
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
