//! Its records: a row every minute, by a thread of their own. What cannot be written is
//! logged, and the clock is still kept.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use daemon::status::DaemonStatus;
use daemon::{Settings, StatusBoard};
use fleet::Snapshot;
use records::{Error, Folder, Minute};

use crate::error::ProgramError;
use crate::log::DaemonLog;
use crate::minutes::{PreviousMinute, minute};
use crate::scrapes::{begin, scrapes};

const EVERY: Duration = Duration::from_secs(60);
/// The sources have replied by then.
const FIRST: Duration = Duration::from_secs(5);
/// A Parquet file is made anew after so many rows: it is an hour old at the most.
const PACKED_EACH: u32 = 60;
/// Making a Parquet file of a day takes a part of this.
const STACK_BYTES: usize = 512 << 10;

/// Where to.
pub(crate) struct MinuteRecording {
    folder: Folder<Minute>,
    shown: PathBuf,
    /// Lines that were left out when a Parquet file was made last.
    left_out: u64,
    /// What was logged to fail, and not yet to work again.
    failing: [bool; 2],
}

/// What may fail: a row, each minute, and a Parquet file, each hour.
const ROW: (usize, &str) = (0, "nothing is recorded");
const PACK: (usize, &str) = (1, "lines of records are not packed");

impl MinuteRecording {
    /// What is to be recorded, if that is configured.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let shown = settings.records.clone()?;
        let limit_bytes = u64::from(settings.records_limit_mb) * 1_000_000;
        let folder = Folder::here(&shown, limit_bytes);
        Some(Self { folder, shown, left_out: 0, failing: [false; 2] })
    }

    /// Records until the process ends.
    pub(crate) fn begin(mut self, board: StatusBoard) -> Result<(), ProgramError> {
        let record = move || {
            let log = DaemonLog::open();
            let scrapes = scrapes(board.clone(), &[]);
            let mut before = PreviousMinute::default();
            thread::sleep(FIRST);
            for row in 0_u32.. {
                let recorded =
                    self.write(&scrapes.snapshot(), board.latest().as_deref(), &mut before);
                self.report(&log, ROW, recorded);
                if row.is_multiple_of(PACKED_EACH) {
                    let packed = self.pack(&log);
                    self.report(&log, PACK, packed);
                }
                thread::sleep(EVERY);
            }
        };
        begin("records", STACK_BYTES, record)
    }

    /// Writes a row.
    fn write(
        &mut self,
        machine: &Snapshot,
        status: Option<&DaemonStatus>,
        before: &mut PreviousMinute,
    ) -> Result<(), Error> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unix_s = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        let (row, next) = minute(machine, status, before, unix_s);
        self.folder.write(&row)?;
        // What a row that was not written has counted is in the next.
        *before = next;
        Ok(())
    }

    /// Parquet files; the day's lines are read anew each hour.
    fn pack(&mut self, log: &DaemonLog) -> Result<(), Error> {
        let now = self.folder.pack()?.left_out;
        let left_out = now.saturating_sub(std::mem::replace(&mut self.left_out, now));
        if left_out > 0 {
            log.notice(&format!("{left_out} damaged lines of records are left out"));
        }
        Ok(())
    }

    /// Logs a failure once, and once more when it is over: not every minute.
    fn report(&mut self, log: &DaemonLog, (which, what): (usize, &str), done: Result<(), Error>) {
        let was_failing = std::mem::replace(&mut self.failing[which], done.is_err());
        match done {
            Err(why) if !was_failing => {
                let remedy = "free disk space and check write permission; the clock is still kept \
                     without records";
                log.error(&format!("{what}: {why}"), remedy);
            }
            Ok(()) if was_failing => {
                log.notice(&format!("records are written again: {}", self.shown.display()));
            }
            _ => {}
        }
    }
}
