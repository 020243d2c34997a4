//! The folder in which one machine's minutes are written, beside those of others, in the
//! layout that Hive began and all engines read: a day and a host are folders, and columns of
//! the table.
//!
//! ```text
//! date=2026-11-22/host=db-1/part-1795305600-5e2f10c3.jsonl
//! ```
//!
//! The first minute's time and a random number, so that machines of one host name, as clones
//! have, do not write over each other's files where they are gathered. Lines are handed to the
//! system at once and not synced: a killed daemon loses none, and a power failure costs the
//! last half minute or so (Linux writes data after `vm.dirty_expire_centisecs`), which may be
//! left as a line of zeros.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pvclock::units::calendar;
use rustix::fs::FlockOperation;
use rustix::rand::{GetRandomFlags, getrandom};

use super::minutes::Minute;

/// A line is shorter.
const LINE_BYTES: u64 = 16 << 10;
/// The name that other machines know this one by.
const HOST: &str = "/proc/sys/kernel/hostname";
/// How the name of a file begins, and ends.
const NAME: (&str, &str) = ("part-", ".jsonl");

/// Why a minute is not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    /// Another daemon has just created it.
    #[error("{} is being written by another program", .0.display())]
    InUse(PathBuf),
    /// The system cannot read it.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    /// The system cannot write it.
    #[error("cannot write {}: {}", .0.display(), .1)]
    Write(PathBuf, io::Error),
}

fn reading(path: &Path) -> impl Fn(io::Error) -> RecordsError + '_ {
    |error| RecordsError::Read(path.into(), error)
}

fn writing(path: &Path) -> impl Fn(io::Error) -> RecordsError + '_ {
    |error| RecordsError::Write(path.into(), error)
}

/// One machine's minutes.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    host: String,
    pub(super) limit_bytes: u64,
    pub(super) today: Option<Lines>,
}

/// The file of a day.
#[derive(Debug)]
pub(super) struct Lines {
    date: String,
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Whole lines.
    bytes: u64,
}

impl Folder {
    /// The minutes of this machine, by its host name, whose files take no more than this.
    /// Nothing is written yet.
    pub(crate) fn here(root: &Path, limit_bytes: u64) -> Self {
        let host = fs::read_to_string(HOST).unwrap_or_default();
        Self::new(root, host.trim(), limit_bytes)
    }

    /// The minutes of a machine, whose files take no more than this.
    ///
    /// A name that is no name of a file in all systems gets a `_` for what is none.
    pub(super) fn new(root: &Path, host: &str, limit_bytes: u64) -> Self {
        let fit = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let host: String = host.chars().take(200).map(fit).collect();
        // "." and ".." are no names, and neither is none.
        let host = match host.trim_matches('.') {
            "" => "unknown".to_owned(),
            name => name.to_owned(),
        };
        Self { root: root.to_owned(), host, limit_bytes, today: None }
    }

    /// Adds a minute to its day. With a new file, the oldest are removed where all take more
    /// than the limit.
    ///
    /// # Errors
    /// It cannot be written, and what was written before is whole; or old files cannot be
    /// removed.
    pub(crate) fn write(&mut self, minute: &Minute) -> Result<(), RecordsError> {
        let date = date_of(minute.unix_s);
        // Somebody may have removed it.
        self.today = self.today.take().filter(|lines| lines.path.exists());
        let is_new = self.today.as_ref().is_none_or(|lines| lines.date != date);
        if is_new {
            self.today = Some(self.open(date, minute.unix_s)?);
        }
        let Some(today) = &mut self.today else { return Ok(()) };
        let line = minute.line();
        if let Err(why) = today.file.write_all(&line) {
            // A part of it may be there: the next one begins a line.
            let _ = today.file.set_len(today.bytes);
            let failed = RecordsError::Write(today.path.clone(), why);
            self.today = None;
            return Err(failed);
        }
        today.bytes += line.len() as u64;
        if is_new { self.bound() } else { Ok(()) }
    }

    /// How many files an earlier version left: Parquet, and the lines that it was made of.
    pub(crate) fn count_old(&self) -> usize {
        let is_old = |name: &str| name.starts_with('_') || name.ends_with(".parquet");
        self.paths(is_old).map_or(0, |paths| paths.len())
    }

    /// The lines of a day: those that are there, or new ones.
    fn open(&self, date: String, unix_s: i64) -> Result<Lines, RecordsError> {
        let folder = self.root.join(format!("date={date}")).join(format!("host={}", self.host));
        fs::create_dir_all(&folder).map_err(writing(&folder))?;
        for file in self.files()?.into_iter().rev().filter(|file| file.date == date) {
            let lines = OpenOptions::new().read(true).write(true).open(&file.path);
            // Such as root's, of a run by hand.
            let Ok(mut lines) = lines else { continue };
            if lock(&lines, &file.path).is_err() {
                continue;
            }
            let bytes = whole(&lines).map_err(reading(&file.path))?;
            let ready = lines.set_len(bytes).and_then(|()| lines.seek(SeekFrom::End(0)));
            ready.map_err(writing(&file.path))?;
            return Ok(Lines { date, path: file.path, file: lines, bytes });
        }
        // Another than that of a clone with the same host name, and than one's own before the
        // clock was set back. Not /etc/machine-id: clones have that in common too.
        let mut number = [0; 4];
        getrandom(&mut number, GetRandomFlags::empty())
            .map_err(|why| RecordsError::Write(folder.clone(), why.into()))?;
        let number = u32::from_ne_bytes(number);
        let (begin, end) = NAME;
        let path = folder.join(format!("{begin}{unix_s}-{number:08x}{end}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(writing(&path))?;
        lock(&file, &path)?;
        Ok(Lines { date, path, file, bytes: 0 })
    }

    /// Removes the oldest files beyond the limit, but not what is being written.
    fn bound(&self) -> Result<(), RecordsError> {
        let open = self.today.as_ref().map(|lines| &lines.path);
        let files = self.files()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if bytes <= self.limit_bytes {
                break;
            }
            if Some(&file.path) == open {
                continue;
            }
            fs::remove_file(&file.path).map_err(writing(&file.path))?;
            bytes -= file.bytes;
            // Only where nothing else is in them.
            for folder in file.path.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(folder);
            }
        }
        Ok(())
    }

    /// This machine's files, the oldest first.
    pub(super) fn files(&self) -> Result<Vec<DayFile>, RecordsError> {
        let is_ours = |name: &str| name.starts_with(NAME.0) && name.ends_with(NAME.1);
        let mut files = self.paths(is_ours)?;
        files.sort_by(|a, b| (&a.date, &a.path).cmp(&(&b.date, &b.path)));
        Ok(files)
    }

    /// This machine's files of such names. Links are not followed.
    fn paths(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<DayFile>, RecordsError> {
        let mut files = Vec::new();
        let days = match fs::read_dir(&self.root) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(files),
            days => days.map_err(reading(&self.root))?,
        };
        for day in days.flatten().filter(|day| day.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = day.file_name();
            let Some(date) = name.to_str().and_then(|name| name.strip_prefix("date=")) else {
                continue;
            };
            let Ok(parts) = fs::read_dir(day.path().join(format!("host={}", self.host))) else {
                continue;
            };
            for part in parts.flatten() {
                let is_wanted = part.file_name().to_str().is_some_and(&is_wanted);
                if let Some(about) =
                    part.metadata().ok().filter(|about| is_wanted && about.is_file())
                {
                    let (date, bytes) = (date.to_owned(), about.len());
                    files.push(DayFile { date, path: part.path(), bytes });
                }
            }
        }
        Ok(files)
    }
}

/// A file of ours.
#[derive(Debug)]
pub(super) struct DayFile {
    pub(super) date: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

fn lock(file: &File, path: &Path) -> Result<(), RecordsError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordsError::InUse(path.into())),
        // A file system without locks cannot show a second daemon.
        _ => Ok(()),
    }
}

/// The day of a Unix time.
pub(super) fn date_of(unix_s: i64) -> String {
    let date = calendar::date(i128::from(unix_s.div_euclid(86_400)));
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// Bytes of whole lines: up to the last end of one.
fn whole(mut file: &File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let begin = length.saturating_sub(LINE_BYTES);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.take(LINE_BYTES).read_to_end(&mut end)?;
    let last = end.iter().rposition(|byte| *byte == b'\n');
    Ok(last.map_or(begin, |at| begin + at as u64 + 1))
}

#[cfg(test)]
mod tests;
