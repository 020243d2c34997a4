//! `parachron keep`: a small daemon that keeps the time of day right.

mod log;
mod options;

use std::process::ExitCode;

use daemon::{Daemon, DaemonError, advice};
use linux::wait::{Signals, WaitUntil};

use crate::error::{CliError, cannot_wait};
pub(crate) use options::Args;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut daemon = Daemon::new(args.settings.clone()).map_err(cli_error)?;
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    // A dry run is only for its reader; a clock is kept though the log is lost.
    let wait = if args.settings.dry_run { wait.for_reader() } else { wait };
    match log::write(args.format, &daemon.started()) {
        Ok(()) | Err(CliError::ClosedPipe) => {}
        Err(error) => return Err(error),
    }
    // The clock is kept though the log is lost: then there is nobody to report that to.
    let write = |line| drop(log::write(args.format, &line));
    daemon.run(wait, write).map_err(cli_error)?;
    Ok(ExitCode::SUCCESS)
}

fn cli_error(error: DaemonError) -> CliError {
    let (cause, remedy) = advice::advise(&error);
    CliError::Ended { cause, remedy, code: error.exit_code() }
}
