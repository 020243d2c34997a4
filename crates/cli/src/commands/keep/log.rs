//! The log: lines of text or JSON on standard output, which a service
//! manager puts into its journal; and the status line for the manager itself.

use daemon::{manager, words};
use keeper::event::Line;

use crate::error::CliError;
use crate::output::event_line::message_line;
use crate::output::{self, LineFormat};

/// Where lines go.
#[derive(Debug)]
pub(super) struct KeepLog {
    format: LineFormat,
}

impl KeepLog {
    pub(super) fn new(format: LineFormat) -> Self {
        Self { format }
    }

    /// Writes the first line.
    ///
    /// # Errors
    /// Standard output cannot be written. That it has no reader is no error.
    pub(super) fn begin(&self, line: &Line) -> Result<(), CliError> {
        match self.try_write(line) {
            Err(CliError::ClosedPipe) => Ok(()),
            written => written,
        }
    }

    /// Writes a line. The clock is kept though the log is lost: by then there
    /// is nobody to report that to.
    pub(super) fn write(&self, line: &Line) {
        let _ = self.try_write(line);
    }

    fn try_write(&self, line: &Line) -> Result<(), CliError> {
        manager::notify(&line.event);
        match self.format {
            LineFormat::Text => {
                let (kind, message) = words::describe(&line.event);
                output::text(&(message_line(line.at_unix_ns, &kind, &message) + "\n"))
            }
            LineFormat::Json => output::text(&output::json_line(line)?),
        }
    }
}
