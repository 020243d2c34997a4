//! Disruptions in the systemd journal, as entries with fields to search by.

use std::path::Path;

use daemon::journal::disruption_entry;
use linux::journal::Journal;

use super::event::{Line, WatchEvent};
use crate::error::CliError;

/// Writes entries.
pub(super) struct Entries {
    journal: Journal,
    lost: u64,
}

impl Entries {
    pub(super) fn open(socket: &Path) -> Result<Self, CliError> {
        let journal = Journal::open(socket).map_err(|error| CliError::Failed {
            cause: format!("cannot write to the journal at {}: {error}", socket.display()),
            remedy: "start systemd-journald, or write --format json to a file".into(),
        })?;
        Ok(Self { journal, lost: 0 })
    }

    /// Writes the disruptions among `lines`. An entry that the journal does
    /// not accept is counted: the watch continues without the journal.
    pub(super) fn write(&mut self, lines: &[Line]) {
        for line in lines {
            if let WatchEvent::Disruption(disruption) = &line.event
                && self
                    .journal
                    .send(&disruption_entry(line.at_monotonic_ns, disruption, "parachron"))
                    .is_err()
            {
                self.lost += 1;
            }
        }
    }

    /// Entries that the journal did not accept.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
