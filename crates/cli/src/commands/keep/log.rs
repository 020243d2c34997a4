//! The log: lines of text or JSON on standard output, which a service
//! manager puts into its journal; and how it stands, for the manager itself.

use platform::clock::Clock;
use platform::service_manager;

use super::line::{Event, Line};
use super::text;
use crate::error::CliError;
use crate::output::{self, LineFormat};

/// Where lines go.
#[derive(Debug)]
pub(super) struct Log {
    format: LineFormat,
}

impl Log {
    pub(super) fn new(format: LineFormat) -> Self {
        Self { format }
    }

    /// Tells that keeping begins.
    ///
    /// # Errors
    /// Standard output takes no line; that it has no reader is none.
    pub(super) fn begin(&self, event: Event) -> Result<(), CliError> {
        match self.write(event) {
            Err(CliError::ClosedPipe) => Ok(()),
            told => told,
        }
    }

    /// Tells what happened just now. A log that is lost is no reason to stop
    /// keeping time: by then there is nobody to tell.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.write(event);
    }

    fn write(&self, event: Event) -> Result<(), CliError> {
        let line = Line {
            at_unix_ns: Clock::Realtime.read_ns(),
            at_monotonic_ns: Clock::Monotonic.read_ns().unwrap_or_default(),
            event,
        };
        if let Some(status) = text::status(&line.event) {
            // A manager that has gone is no reason to stop keeping time.
            let _ = match &line.event {
                Event::Started(_) => service_manager::ready(&status),
                Event::Summary(_) => service_manager::stopping(),
                _ => service_manager::status(&status),
            };
        }
        match self.format {
            LineFormat::Text => output::text(&(text::line(&line) + "\n")),
            LineFormat::Json => output::text(&output::json_line(&line)?),
        }
    }
}
