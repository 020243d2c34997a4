//! The folder in which one machine's rows are written, beside those of others, in the layout
//! that Hive began and all engines read: a day and a host are folders, and columns of the
//! table.
//!
//! ```text
//! date=2026-11-22/host=db-1/part-1795305600-5e2f10c3.parquet   whole
//!                           _part-1795305600-5e2f10c3.jsonl    its lines, until it is full
//! ```
//!
//! The first row's time and a random number, so that machines of one host name, as clones
//! have, do not write over each other's files where they are gathered. Engines leave out files
//! whose name begins with `_`. Lines count: of them the Parquet file is made anew, and renamed
//! into its place. A machine that dies loses what Linux had not written, as in
//! [`crate::recorder`]. A day that is over, and lines of 16 MB, are a file for good.

pub mod lines;
pub mod packed;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};
use units::calendar;

use self::lines::{LINE_BYTES, Packed};
use crate::recorder::{Error, lock, reading, writing};
use crate::row::Row;

/// Files of lines that are packed at once: a machine leaves one a day at the most.
const MOST_LEFT: usize = 10_000;
/// Lines of so many bytes are packed for good; of a low limit, a quarter.
const LINES_BYTES: u64 = 16 << 20;
/// The name that other machines know this one by.
const HOST: &str = "/proc/sys/kernel/hostname";

/// One machine's rows.
#[derive(Debug)]
pub struct Folder<R> {
    root: PathBuf,
    host: String,
    limit_bytes: u64,
    today: Option<Lines>,
    row: PhantomData<fn(&R)>,
}

/// The lines of a day that is not over.
#[derive(Debug)]
struct Lines {
    date: String,
    path: PathBuf,
    file: File,
    /// Whole lines.
    bytes: u64,
    /// They are packed for good at so many.
    full_bytes: u64,
}

impl<R: Row> Folder<R> {
    /// The rows of this machine, by its host name, whose files take no more than this. Nothing
    /// is written yet.
    pub fn here(root: &Path, limit_bytes: u64) -> Self {
        let host = fs::read_to_string(HOST).unwrap_or_default();
        Self::new(root, host.trim(), limit_bytes)
    }

    /// The rows of a machine, whose files take no more than this.
    ///
    /// A name that is no name of a file in all systems gets a `_` for what is none.
    pub fn new(root: &Path, host: &str, limit_bytes: u64) -> Self {
        let fit = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let host: String = host.chars().take(200).map(fit).collect();
        // "." and ".." are no names, and neither is none.
        let host = match host.trim_matches('.') {
            "" => "unknown".to_owned(),
            name => name.to_owned(),
        };
        Self { root: root.to_owned(), host, limit_bytes, today: None, row: PhantomData }
    }

    /// Adds a row to its day.
    ///
    /// # Errors
    /// It cannot be written; what was written before is whole.
    pub fn write(&mut self, row: &R) -> Result<(), Error> {
        let date = date_of(row.unix_s());
        // Somebody may have removed it.
        self.today = self.today.take().filter(|lines| lines.path.exists());
        if self.today.as_ref().is_none_or(|lines| lines.date != date) {
            if let Some(lines) = self.today.take() {
                // If this fails, the next hour packs it.
                let _ = self.close(&lines);
            }
            self.today = Some(self.open(date, row.unix_s())?);
        }
        let Some(today) = &mut self.today else { return Ok(()) };
        let line = lines::line(row);
        if let Err(why) = today.file.write_all(&line) {
            // A part of it may be there: the next one begins a line.
            let _ = today.file.set_len(today.bytes);
            let failed = Error::Write(today.path.clone(), why);
            self.today = None;
            return Err(failed);
        }
        today.bytes += line.len() as u64;
        if today.bytes >= today.full_bytes
            && let Some(lines) = self.today.take()
            && self.close(&lines).is_err()
        {
            // Reading as many lines for each row would be dear; `pack` tells why.
            self.today = Some(Lines { full_bytes: lines.bytes.saturating_mul(2), ..lines });
        }
        Ok(())
    }

    /// Makes all Parquet files for good: nothing more is written.
    ///
    /// # Errors
    /// As of [`Folder::pack`].
    pub fn finish(mut self) -> Result<Packed, Error> {
        let packed = self.pack()?;
        let Some(lines) = self.today.take() else { return Ok(packed) };
        fs::remove_file(&lines.path).map_err(writing(&lines.path))?;
        self.bound(None).map(|()| packed)
    }

    /// Makes the Parquet file of the day so far, those of days whose lines were left, and
    /// removes the oldest files where all take more than the limit.
    ///
    /// # Errors
    /// The first of those that cannot be made or removed; its lines stay, and all others
    /// are done.
    pub fn pack(&mut self) -> Result<Packed, Error> {
        let open = self.today.as_ref().map(|lines| lines.path.clone());
        let mut made = vec![open.as_deref().map_or(Ok(Packed::default()), pack::<R>)];
        let left = self.files()?.into_iter().filter(|file| file.is_lines);
        let left = left.filter(|file| Some(&file.path) != open.as_ref());
        made.extend(left.take(MOST_LEFT).map(|file| pack_left::<R>(&file.path)));
        let bound = self.bound(open.as_deref());
        let mut all = Packed::default();
        for packed in made {
            let packed = packed?;
            all.rows += packed.rows;
            all.left_out += packed.left_out;
        }
        bound.map(|()| all)
    }

    /// The day is over, or the lines are many.
    fn close(&self, lines: &Lines) -> Result<(), Error> {
        pack::<R>(&lines.path)?;
        fs::remove_file(&lines.path).map_err(writing(&lines.path))?;
        self.bound(None)
    }

    /// The lines of a day: those that are there, or new ones.
    fn open(&self, date: String, unix_s: i64) -> Result<Lines, Error> {
        let full_bytes = LINES_BYTES.min(self.limit_bytes / 4);
        let folder = self.root.join(format!("date={date}")).join(format!("host={}", self.host));
        fs::create_dir_all(&folder).map_err(writing(&folder))?;
        if let Some(other) = another(&folder, R::FILES) {
            return Err(Error::OtherRows(other));
        }
        for file in self.files()?.into_iter().rev() {
            if !file.is_lines || file.date != date {
                continue;
            }
            let lines = OpenOptions::new().read(true).write(true).open(&file.path);
            // Such as root's, of a run by hand.
            let Ok(mut lines) = lines else { continue };
            if lock(&lines, &file.path).is_err() {
                continue;
            }
            let bytes = whole(&lines).map_err(reading(&file.path))?;
            let ready = lines.set_len(bytes).and_then(|()| lines.seek(SeekFrom::End(0)));
            ready.map_err(writing(&file.path))?;
            return Ok(Lines { date, path: file.path, file: lines, bytes, full_bytes });
        }
        // Another than that of a clone with the same host name, and than one's own before the
        // clock was set back. Not /etc/machine-id: clones have that in common too.
        let mut number = [0; 4];
        getrandom(&mut number, GetRandomFlags::empty())
            .map_err(|why| Error::Write(folder.clone(), why.into()))?;
        let number = u32::from_ne_bytes(number);
        let path = folder.join(format!("_{}-{unix_s}-{number:08x}.jsonl", R::FILES));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(writing(&path))?;
        lock(&file, &path)?;
        Ok(Lines { date, path, file, bytes: 0, full_bytes })
    }

    /// Removes the oldest files beyond the limit, but not what is being written.
    fn bound(&self, open: Option<&Path>) -> Result<(), Error> {
        let files = self.files()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if bytes <= self.limit_bytes {
                break;
            }
            if Some(&*file.path) == open {
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

    /// This machine's files, the oldest first. Links are not followed.
    fn files(&self) -> Result<Vec<RowFile>, Error> {
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
            files.extend(parts.flatten().filter_map(|part| RowFile::parse(date, &part, R::FILES)));
        }
        files.sort_by(|a, b| (&a.date, &a.path).cmp(&(&b.date, &b.path)));
        Ok(files)
    }
}

/// A file of ours.
#[derive(Debug)]
struct RowFile {
    date: String,
    path: PathBuf,
    bytes: u64,
    is_lines: bool,
}

impl RowFile {
    fn parse(date: &str, part: &fs::DirEntry, files: &str) -> Option<Self> {
        let name = part.file_name();
        let name = name.to_str()?;
        let (bare, is_lines) = name.strip_prefix('_').map_or((name, false), |bare| (bare, true));
        let end = if is_lines { ".jsonl" } else { ".parquet" };
        let rest = bare.strip_prefix(files).unwrap_or_default();
        let is_ours = rest.starts_with('-') && rest.ends_with(end);
        let about = part.metadata().ok().filter(|about| is_ours && about.is_file())?;
        Some(Self { date: date.to_owned(), path: part.path(), bytes: about.len(), is_lines })
    }
}

/// A Parquet file of other rows: engines would take them for rows of one table.
fn another(folder: &Path, files: &str) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_other = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_parquet = path.extension().is_some_and(|end| end == "parquet");
        is_parquet && name.split('-').next() != Some(files)
    };
    paths.filter(is_other).min()
}

/// The day of a Unix time.
fn date_of(unix_s: i64) -> String {
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

/// Makes the Parquet file of lines that a day before has left, and removes them.
fn pack_left<R: Row>(path: &Path) -> Result<Packed, Error> {
    let lines = OpenOptions::new().read(true).write(true).open(path).map_err(reading(path))?;
    // Another's, who writes to it.
    if lock(&lines, path).is_err() {
        return Ok(Packed::default());
    }
    let packed = pack::<R>(path)?;
    fs::remove_file(path).map_err(writing(path))?;
    Ok(packed)
}

/// Makes the Parquet file of lines, in the place of the one that is there.
fn pack<R: Row>(lines: &Path) -> Result<Packed, Error> {
    let name = lines.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let to = lines.with_file_name(format!("{}.parquet", name.trim_start_matches('_')));
    let unfinished = lines.with_extension("unfinished");
    let made = pack_to::<R>(lines, &unfinished).and_then(|packed| {
        if packed.rows > 0 {
            fs::rename(&unfinished, &to).map_err(writing(&to))?;
        } else {
            fs::remove_file(&unfinished).map_err(writing(&unfinished))?;
        }
        Ok(packed)
    });
    if made.is_err() {
        // The error that counts is the first.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

fn pack_to<R: Row>(path: &Path, unfinished: &Path) -> Result<Packed, Error> {
    let from = File::open(path).map_err(reading(path))?;
    // Else a power failure may leave fewer lines than the file made of them, and the next
    // would be shorter.
    from.sync_data().map_err(writing(path))?;
    let failed = writing(unfinished);
    let file = File::create(unfinished).map_err(&failed)?;
    let mut writer = packed::Writer::<_, R>::new(file).map_err(&failed)?;
    let mut written = Ok(());
    let packed = lines::read(BufReader::new(from), |row| {
        written = writer.put(row);
        written.is_ok()
    });
    let packed = packed.map_err(reading(path))?;
    written.map_err(&failed)?;
    // A disk that is full or gone often fails only here.
    writer.finish().and_then(|file| file.sync_all()).map_err(&failed)?;
    Ok(packed)
}

#[cfg(test)]
mod tests;
