//! The file of one run.
//!
//! Lines are written as comparisons are made, those of one reply by one call.
//! A Parquet file is made of such lines when the run is over: until then they
//! are in `FILE.parquet.partial`, which holds *all* comparisons, those of
//! earlier runs too. So wherever a run is killed, the partial file alone counts
//! if it exists, and else the Parquet file: no comparison is lost, and none is
//! read twice.
//!
//! Lines are handed to the system at once and not synced: what a killed program
//! wrote is there, and a power failure costs the last half minute or so (Linux
//! writes data after `vm.dirty_expire_centisecs`), which may be left as a line
//! of zeros. Such a line is left out and counted. A Parquet file is synced
//! before it takes its name.

pub mod read;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::damage::Damage;
use crate::parquet;
use crate::record::Record;
use crate::text::{self, BadLines, LineForm, TextError};

/// Why a file of comparisons cannot be created, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its name ends in no known form.
    #[error("cannot infer the format of {} from its name", .0.display())]
    Name(PathBuf),
    /// A new file was requested.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// A new Parquet file was requested, and a run to one of that name (the
    /// first) was killed: its lines (the second) are still there.
    #[error("{} was left by an interrupted run", .1.display())]
    Unfinished(PathBuf, PathBuf),
    /// Two runs cannot write one file.
    #[error("{} is being written by another run", .0.display())]
    InUse(PathBuf),
    /// The file cannot be used.
    #[error("{} {}", .0.display(), .1)]
    Damaged(PathBuf, Damage),
    /// The caller rejects a comparison, with its reason.
    #[error("{} {}", .0.display(), .1)]
    Refused(PathBuf, String),
    /// A folder holds rows of another table: this file.
    #[error("{} exists and holds records of another kind", .0.display())]
    OtherRows(PathBuf),
    /// The system cannot read it.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    /// The system cannot write it.
    #[error("cannot write {}: {}", .0.display(), .1)]
    Write(PathBuf, io::Error),
    /// The names of a comparison that the form cannot write.
    #[error("a comma, quote or control character in a name cannot be written as CSV: {0:?}")]
    Unfit(String),
}

pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |error| Error::Read(path.into(), error)
}

pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |error| Error::Write(path.into(), error)
}

fn damaged(path: &Path) -> impl Fn(Damage) -> Error + '_ {
    |damage| Error::Damaged(path.into(), damage)
}

/// The form of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lines(LineForm),
    Parquet,
}

impl Kind {
    fn for_path(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Lines(LineForm::Csv)),
            Some("jsonl" | "ndjson" | "json") => Ok(Self::Lines(LineForm::Json)),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::Name(path.into())),
        }
    }
}

/// What was read of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The file that was read: the lines of a Parquet file, where a run was cut
    /// short.
    pub path: PathBuf,
    /// Bytes of a last line that was cut, which are left out.
    pub cut_bytes: u64,
    /// Whole lines that are no comparisons, and are left out.
    pub bad: BadLines,
}

/// Writes comparisons.
#[derive(Debug)]
pub struct Recorder {
    /// The file that the run is to leave.
    path: PathBuf,
    /// The file of its lines: the same, but for Parquet.
    lines_path: PathBuf,
    lines: File,
    form: LineForm,
    /// It holds no comparison yet.
    is_empty: bool,
}

impl Recorder {
    /// Creates a new file; an existing one is not overwritten.
    ///
    /// # Errors
    /// It exists, or cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let kind = Kind::for_path(path)?;
        let (lines_path, form) = match kind {
            Kind::Lines(form) => (path.to_owned(), form),
            Kind::Parquet if path.exists() => return Err(Error::Exists(path.into())),
            Kind::Parquet => (partial(path), LineForm::Csv),
        };
        let lines = OpenOptions::new().read(true).write(true).create_new(true).open(&lines_path);
        let lines = lines.map_err(|error| match (error.kind(), kind) {
            (io::ErrorKind::AlreadyExists, Kind::Lines(_)) => Error::Exists(path.into()),
            (io::ErrorKind::AlreadyExists, Kind::Parquet) => {
                Error::Unfinished(path.into(), lines_path.clone())
            }
            _ => Error::Write(lines_path.clone(), error),
        })?;
        lock(&lines, &lines_path)?;
        let mut recorder = Self { path: path.into(), lines_path, lines, form, is_empty: true };
        let opened = recorder.put(&form.opening());
        if opened.is_err() {
            // A file without a beginning would block the next run.
            let _ = fs::remove_file(&recorder.lines_path);
        }
        opened.map(|()| recorder)
    }

    /// Gives what earlier runs left of `path` to `take`, and continues it. If a
    /// run was killed before it had written the beginning, it has no
    /// comparisons, and the beginning is written again.
    ///
    /// # Errors
    /// It cannot be read or written, is no file of comparisons, or `take`
    /// rejects one; it is then as it was.
    pub fn resume(
        path: &Path,
        take: impl FnMut(&Record) -> Result<(), String>,
    ) -> Result<(Self, Joined), Error> {
        // By what is in it, not by its name, but for Parquet.
        let is_parquet = Kind::for_path(path).is_ok_and(|kind| kind == Kind::Parquet);
        let lines_path = if is_parquet { partial(path) } else { path.to_owned() };
        let mut taken = RecordTaker { take, count: 0, refused: None };
        let mut lines = loop {
            if is_parquet && !lines_path.exists() {
                let lines = unpack(path, &lines_path, &mut taken)?;
                let is_empty = taken.count == 0;
                let bad = BadLines::default();
                let joined = Joined { path: path.into(), cut_bytes: 0, bad };
                let form = LineForm::Csv;
                return Ok((Self { path: path.into(), lines_path, lines, form, is_empty }, joined));
            }
            let lines = OpenOptions::new().read(true).write(true).open(&lines_path);
            let lines = lines.map_err(reading(&lines_path))?;
            lock(&lines, &lines_path)?;
            // A run that finished before the lock was had has removed it.
            if is_at(&lines, &lines_path) {
                break lines;
            }
        };
        let whole = taken.read_lines(&lines, &lines_path, Kind::for_path(path).ok())?;
        // The next comparison begins a line.
        lines.set_len(whole.bytes).map_err(writing(&lines_path))?;
        lines.seek(SeekFrom::End(0)).map_err(writing(&lines_path))?;
        let (cut_bytes, bad) = (whole.cut_bytes, whole.bad);
        let joined = Joined { path: lines_path.clone(), cut_bytes, bad };
        let is_empty = taken.count == 0;
        let mut recorder =
            Self { path: path.into(), lines_path, lines, form: whole.form, is_empty };
        if whole.bytes == 0 {
            recorder.put(&whole.form.opening())?;
        }
        Ok((recorder, joined))
    }

    /// Writes the comparisons of one reply, by one call.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, records: &[Record]) -> Result<(), Error> {
        let mut lines = String::new();
        for record in records {
            let line = self.form.line(record);
            lines += &line.ok_or_else(|| Error::Unfit(record.names().join(" ")))?;
        }
        self.is_empty &= records.is_empty();
        self.put(&lines)
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.lines.write_all(text.as_bytes()).map_err(writing(&self.lines_path))
    }

    /// The file that holds the comparisons now.
    pub fn lines_path(&self) -> &Path {
        &self.lines_path
    }

    /// The run is over: a Parquet file is made of its lines. A file without a
    /// comparison is removed.
    ///
    /// # Errors
    /// It cannot be made; its lines are then kept.
    pub fn finish(self) -> Result<(), Error> {
        if self.is_empty {
            return fs::remove_file(&self.lines_path).map_err(writing(&self.lines_path));
        }
        if self.lines_path == self.path {
            return Ok(());
        }
        let unfinished = suffixed(&self.path, ".unfinished");
        let packed = pack(&self.lines, &self.lines_path, &self.path, &unfinished);
        if packed.is_err() {
            // The error that counts is the first.
            let _ = fs::remove_file(&unfinished);
        }
        packed?;
        fs::remove_file(&self.lines_path).map_err(writing(&self.lines_path))
    }
}

/// The lines of a Parquet file.
fn partial(path: &Path) -> PathBuf {
    suffixed(path, ".partial")
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::InUse(path.into())),
        // A file system without locks cannot show a second run.
        _ => Ok(()),
    }
}

/// Whether an open file is still the one of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Gives the comparisons of earlier runs to `take` until it rejects one.
struct RecordTaker<T> {
    take: T,
    count: u64,
    refused: Option<String>,
}

impl<T: FnMut(&Record) -> Result<(), String>> RecordTaker<T> {
    fn take(&mut self, record: &Record) {
        self.count += 1;
        if self.refused.is_none() {
            self.refused = (self.take)(record).err();
        }
    }

    /// Those of lines; `kind` is by the name of the file.
    fn read_lines(
        &mut self,
        file: &File,
        path: &Path,
        kind: Option<Kind>,
    ) -> Result<text::WholeLines, Error> {
        let whole = match resume(file, kind).map_err(reading(path))? {
            Some(whole) => whole,
            None => read_lines(file, path, |record| self.take(&record))?,
        };
        self.check(path)?;
        Ok(whole)
    }

    fn check(&mut self, path: &Path) -> Result<(), Error> {
        let refused = self.refused.take();
        refused.map_or(Ok(()), |why| Err(Error::Refused(path.into(), why)))
    }
}

/// A file that holds only a part of its beginning, or nothing: then its form is
/// that of its name.
fn resume(mut file: &File, kind: Option<Kind>) -> io::Result<Option<text::WholeLines>> {
    let longest = LineForm::ALL.into_iter().map(|form| form.opening().len()).max().unwrap_or(0);
    let mut found = Vec::new();
    file.rewind()?;
    file.take(longest as u64).read_to_end(&mut found)?;
    let by_name = match kind {
        Some(Kind::Lines(form)) => Some(form),
        Some(Kind::Parquet) => Some(LineForm::Csv),
        None => None,
    };
    let form = match &found[..] {
        [] => by_name,
        _ => LineForm::ALL.into_iter().find(|form| {
            let opening = form.opening();
            found.len() < opening.len() && opening.as_bytes().starts_with(&found)
        }),
    };
    let cut_bytes = found.len() as u64;
    let bad = BadLines::default();
    Ok(form.map(|form| text::WholeLines { form, bytes: 0, cut_bytes, bad }))
}

fn read_lines(
    mut file: &File,
    path: &Path,
    take: impl FnMut(Record),
) -> Result<text::WholeLines, Error> {
    file.rewind().map_err(reading(path))?;
    text::read(BufReader::new(file), take).map_err(|error| match error {
        TextError::Io(error) => reading(path)(error),
        TextError::Damage(damage) => damaged(path)(damage),
    })
}

/// Makes the Parquet file of its lines.
fn pack(lines: &File, lines_path: &Path, path: &Path, unfinished: &Path) -> Result<(), Error> {
    let failed = writing(path);
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(unfinished);
    let mut writer = parquet::Writer::new(file.map_err(&failed)?).map_err(&failed)?;
    let mut written = Ok(());
    read_lines(lines, lines_path, |record| {
        if written.is_ok() {
            written = writer.put(record);
        }
    })?;
    let file = written.and_then(|()| writer.finish()).map_err(&failed)?;
    // A disk that is full or gone often fails only here.
    file.sync_all().map_err(&failed)?;
    fs::rename(unfinished, path).map_err(&failed)
}

/// Makes lines of a Parquet file, to continue it.
fn unpack(
    path: &Path,
    lines_path: &Path,
    taken: &mut RecordTaker<impl FnMut(&Record) -> Result<(), String>>,
) -> Result<File, Error> {
    let file = File::open(path).map_err(reading(path))?;
    let unfinished = suffixed(path, ".partial.unfinished");
    let failed = writing(lines_path);
    // Emptied only when locked: another run may be writing it.
    let lines =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&unfinished);
    let lines = lines.map_err(&failed)?;
    lock(&lines, lines_path)?;
    lines.set_len(0).map_err(&failed)?;
    let mut writer = BufWriter::new(lines);
    let mut written = writer.write_all(LineForm::Csv.opening().as_bytes());
    let read = parquet::read(file, |record| {
        let line = LineForm::Csv.line(&record).unwrap_or_default();
        if written.is_ok() {
            written = writer.write_all(line.as_bytes());
        }
        taken.take(&record);
    });
    let whole = read.map_err(damaged(path)).and_then(|()| taken.check(path)).and_then(|()| {
        let lines = written.and_then(|()| Ok(writer.into_inner()?)).map_err(&failed)?;
        // From here on these lines count, not the Parquet file.
        lines.sync_all().map_err(&failed)?;
        fs::rename(&unfinished, lines_path).map_err(&failed)?;
        Ok(lines)
    });
    if whole.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    whole
}

#[cfg(test)]
mod tests;
