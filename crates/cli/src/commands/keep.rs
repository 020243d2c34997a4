//! `parachron keep`: a small daemon that keeps the time of day right.

mod log;
mod options;

use std::process::ExitCode;

use daemon::{Daemon, DaemonError, advice};
use linux::wait::{Signals, Wait};

use crate::error::{CliError, cannot_wait};
use log::KeepLog;
pub(crate) use options::Args;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut daemon = Daemon::new(args.settings.clone()).map_err(cli_error)?;
    let wait = Wait::new(Signals::ending().map_err(cannot_wait)?);
    // A dry run is only for its reader; a clock is kept though the log is lost.
    let wait = if args.settings.dry_run { wait.for_reader() } else { wait };
    let log = KeepLog::new(args.format);
    log.begin(&daemon.started())?;
    daemon.run(wait, |line| log.write(&line)).map_err(cli_error)?;
    Ok(ExitCode::SUCCESS)
}

fn cli_error(error: DaemonError) -> CliError {
    let (cause, remedy) = advice::of(&error);
    CliError::Ended { cause, remedy, code: error.exit_code() }
}
