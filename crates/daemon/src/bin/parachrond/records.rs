//! Its records: a line of JSON every minute, by a thread of their own. What cannot be written is
//! logged, and the clock is still kept.

mod folder;
mod minutes;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use daemon::fleet::Snapshot;
use daemon::status::DaemonStatus;
use daemon::{Settings, StatusBoard};

use crate::error::ProgramError;
use crate::log::DaemonLog;
use crate::scrapes::{begin, scrapes};
use folder::{Folder, RecordsError};
use minutes::{PreviousMinute, minute};

const EVERY: Duration = Duration::from_secs(60);
/// The sources have replied by then.
const FIRST: Duration = Duration::from_secs(5);
/// Reading the machine takes a part of this.
const STACK_BYTES: usize = 512 << 10;

/// Where to.
pub(crate) struct MinuteRecording {
    folder: Folder,
    shown: PathBuf,
    /// It was logged to fail, and not yet to work again.
    is_failing: bool,
}

impl MinuteRecording {
    /// What is to be recorded, if that is configured.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let shown = settings.records.clone()?;
        let limit_bytes = u64::from(settings.records_limit_mb) * 1_000_000;
        let folder = Folder::here(&shown, limit_bytes);
        Some(Self { folder, shown, is_failing: false })
    }

    /// Records until the process ends.
    pub(crate) fn begin(mut self, board: StatusBoard) -> Result<(), ProgramError> {
        let record = move || {
            let log = DaemonLog::open();
            let scrapes = scrapes(board.clone(), &[]);
            let mut before = PreviousMinute::default();
            thread::sleep(FIRST);
            self.tell_old(&log);
            loop {
                let recorded =
                    self.write(&scrapes.snapshot(), board.latest().as_ref(), &mut before);
                self.report(&log, recorded);
                thread::sleep(EVERY);
            }
        };
        begin("records", STACK_BYTES, record)
    }

    /// Files of an earlier version are neither read nor removed.
    fn tell_old(&self, log: &DaemonLog) {
        let count = self.folder.count_old();
        if count > 0 {
            log.notice(&format!(
                "{count} files of an earlier version are left alone in {}: they are not \
                 part of records-limit; CHANGELOG.md has the statement that converts them",
                self.shown.display()
            ));
        }
    }

    /// Writes a row.
    fn write(
        &mut self,
        machine: &Snapshot,
        status: Option<&DaemonStatus>,
        before: &mut PreviousMinute,
    ) -> Result<(), RecordsError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unix_s = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        let (row, next) = minute(machine, status, before, unix_s);
        self.folder.write(&row)?;
        // What a row that was not written has counted is in the next.
        *before = next;
        Ok(())
    }

    /// Logs a failure once, and once more when it is over: not every minute.
    fn report(&mut self, log: &DaemonLog, done: Result<(), RecordsError>) {
        let was_failing = std::mem::replace(&mut self.is_failing, done.is_err());
        match done {
            Err(why) if !was_failing => {
                let remedy = "free disk space and check write permission; the clock is still kept \
                     without records";
                log.error(&format!("nothing is recorded: {why}"), remedy);
            }
            Ok(()) if was_failing => {
                log.notice(&format!("records are written again: {}", self.shown.display()));
            }
            _ => {}
        }
    }
}
