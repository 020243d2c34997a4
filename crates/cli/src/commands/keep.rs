//! `parachron keep`: a small daemon that keeps the time of day right.

mod options;

use std::process::ExitCode;

use daemon::words::{self, EventDescription};
use daemon::{Daemon, DaemonError, advice, manager};
use keeper::event::Line;
use linux::wait::{Signals, WaitUntil};

use crate::error::{CliError, cannot_wait};
use crate::output::message_line;
use crate::output::{self, LineFormat};

pub(crate) use options::Args;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut daemon = Daemon::new(args.settings.clone()).map_err(cli_error)?;
    let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?);
    // A dry run is only for its reader; a clock is kept though the log is lost.
    let wait = if args.settings.dry_run { wait.for_reader() } else { wait };
    match write_log(args.format, &daemon.started()) {
        Ok(()) | Err(CliError::ClosedPipe) => {}
        Err(error) => return Err(error),
    }
    // The clock is kept though the log is lost: then there is nobody to report that to.
    let write = |line| drop(write_log(args.format, &line));
    daemon.run(wait, write).map_err(cli_error)?;
    Ok(ExitCode::SUCCESS)
}

fn cli_error(error: DaemonError) -> CliError {
    let (cause, remedy) = advice::advise(&error);
    CliError::Ended { cause, remedy, code: error.exit_code() }
}

// The log: lines of text or JSON on standard output, which a service
// manager puts into its journal; and the status line for the manager itself.

/// Writes a line.
///
/// # Errors
/// Standard output cannot be written.
fn write_log(format: LineFormat, line: &Line) -> Result<(), CliError> {
    manager::notify(&line.event);
    match format {
        LineFormat::Text => {
            let EventDescription { kind, message, .. } = words::describe(&line.event);
            output::text(&(message_line(line.at_unix_ns, &kind, &message) + "\n"))
        }
        LineFormat::Json => output::text(&output::json_line(line)?),
    }
}
