//! Its records: each minute a row, by a thread of their own. What cannot be written is
//! told, and the clock is kept all the same.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use daemon::{Settings, program};
use exporter::{Answer, Scrapes};
use records::{Error, Folder};

use crate::Failure;
use crate::log::Log;
use crate::minutes::{Before, minute};

const EVERY: Duration = Duration::from_secs(60);
/// The sources have replied by then.
const FIRST: Duration = Duration::from_secs(5);
/// A Parquet file is made anew after so many rows: it is an hour old at the most.
const PACKED_EACH: u32 = 60;
/// Making a Parquet file of a day takes a part of this.
const STACK_BYTES: usize = 512 << 10;
/// The name that other machines know this one by.
const HOST: &str = "/proc/sys/kernel/hostname";

/// Where to, and who is asked.
pub(crate) struct Recording {
    folder: Folder,
    shown: PathBuf,
    scrapes: Scrapes,
    /// Lines that were left out when a Parquet file was made last.
    left_out: u64,
}

impl Recording {
    /// What is to be recorded, if that is configured.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(shown) = settings.records.clone() else { return Ok(None) };
        let Some(socket) = settings.status_socket.clone() else {
            let cause = "records are made of what is told at status-socket, which is empty";
            return Err((cause.into(), "name a status-socket".into(), program::USAGE));
        };
        let ask = move || {
            let (knows, status) = daemon::metrics::ask(&socket).unzip();
            Answer { knows, status, is_expected: true }
        };
        let scrapes = Scrapes::new(env!("CARGO_PKG_VERSION"), &[], ask);
        let host = std::fs::read_to_string(HOST).unwrap_or_default();
        let limit_bytes = u64::from(settings.records_limit_mb) * 1_000_000;
        let folder = Folder::new(&shown, host.trim(), limit_bytes);
        Ok(Some(Self { folder, shown, scrapes, left_out: 0 }))
    }

    /// Records until the process ends.
    pub(crate) fn begin(mut self) -> Result<(), Failure> {
        let record = move || {
            let log = Log::open();
            let (mut before, mut is_failing) = (Before::default(), false);
            thread::sleep(FIRST);
            for row in 0_u32.. {
                let recorded = self.one(&mut before, row.is_multiple_of(PACKED_EACH));
                self.tell(&log, recorded, &mut is_failing);
                thread::sleep(EVERY);
            }
        };
        let thread = thread::Builder::new().name("records".into()).stack_size(STACK_BYTES);
        let failed =
            |why: io::Error| (format!("no thread: {why}"), "ulimit -u".into(), program::FAILED);
        thread.spawn(record).map(|_| ()).map_err(failed)
    }

    /// A row, and a Parquet file where that is due; more lines that were left out of it.
    fn one(&mut self, before: &mut Before, is_packed: bool) -> Result<u64, Error> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unix_s = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        let (row, next) = minute(&self.scrapes.one(), before, unix_s);
        self.folder.write(&row)?;
        // What a row that was not written has counted is in the next.
        *before = next;
        if !is_packed {
            return Ok(0);
        }
        // The day's lines are read anew each hour.
        let now = self.folder.pack()?.left_out;
        Ok(now.saturating_sub(std::mem::replace(&mut self.left_out, now)))
    }

    /// Once, and once again when it is over: not each minute.
    fn tell(&self, log: &Log, recorded: Result<u64, Error>, is_failing: &mut bool) {
        match recorded {
            Err(why) if !*is_failing => {
                let remedy = "room on the disk and write permission; the clock is kept without";
                log.error(&format!("nothing is recorded: {why}"), remedy);
                *is_failing = true;
            }
            Err(_) => {}
            Ok(left_out) => {
                if std::mem::take(is_failing) {
                    log.notice(&format!("records are written again: {}", self.shown.display()));
                }
                if left_out > 0 {
                    log.notice(&format!("{left_out} damaged lines of records are left out"));
                }
            }
        }
    }
}
