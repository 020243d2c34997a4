//! The log: lines of text or JSON on standard output, which a service
//! manager puts into its journal; and the status line for the manager itself.

use daemon::manager;
use daemon::words::{self, EventDescription};
use keeper::event::Line;

use crate::error::CliError;
use crate::output::event_line::message_line;
use crate::output::{self, LineFormat};

/// Writes a line.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn write(format: LineFormat, line: &Line) -> Result<(), CliError> {
    manager::notify(&line.event);
    match format {
        LineFormat::Text => {
            let EventDescription { kind, message, .. } = words::describe(&line.event);
            output::text(&(message_line(line.at_unix_ns, &kind, &message) + "\n"))
        }
        LineFormat::Json => output::text(&output::json_line(line)?),
    }
}
