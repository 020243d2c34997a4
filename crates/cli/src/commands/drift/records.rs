//! The file of comparisons that `--records` and `--resume` name, or the folder.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inspect::comparison::ClockName;
use records::{Compared, Damage, Error, Folder, Joined, Record, Recorder};

use crate::error::CliError;

/// Where comparisons go.
pub(super) enum Sink {
    /// A file of one run, or of several that continued it.
    File(Recorder),
    /// A folder of days and hosts, as the daemon's.
    Folder(Folder<Compared>),
}

impl Sink {
    /// A new file, or a folder: one that is there, or a name with a slash at its end.
    pub(super) fn create(path: &Path, limit_bytes: u64) -> Result<Self, CliError> {
        if path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/") {
            return Ok(Self::Folder(Folder::here(path, limit_bytes)));
        }
        Recorder::create(path).map(Self::File).map_err(|error| match error {
            Error::Write(..) => CliError::Failed {
                cause: error.to_string(),
                remedy: "pass --records with a FILE in a writable folder, on a disk with room"
                    .into(),
            },
            other => failed(other),
        })
    }

    /// Writes the comparisons of one reply.
    pub(super) fn write(&mut self, records: &[Record]) -> Result<(), CliError> {
        match self {
            Self::File(recorder) => recorder.write(records),
            Self::Folder(folder) => {
                let unix_s = linux::clock::pair()?.realtime_ns / 1_000_000_000;
                let unix_s = i64::try_from(unix_s).unwrap_or(i64::MAX);
                records.iter().try_for_each(|record| folder.write(&Compared::new(unix_s, record)))
            }
        }
        .map_err(failed)
    }

    /// The run is over.
    pub(super) fn finish(self) -> Result<(), CliError> {
        match self {
            Self::File(recorder) => recorder.finish(),
            Self::Folder(folder) => folder.finish().map(|_| ()),
        }
        .map_err(failed)
    }
}

/// Continues an earlier run's file: gives what it holds to `take`; with a note on
/// what is left out.
pub(super) fn resume(
    path: &Path,
    take: impl FnMut(ClockName, &Record),
) -> Result<(Recorder, Option<String>), CliError> {
    let (recorder, joined) = Recorder::resume(path, by_name(take)).map_err(failed)?;
    Ok((recorder, cut(&joined)))
}

/// As [`resume`], but leaves the file as it is.
pub(super) fn read(
    path: &Path,
    take: impl FnMut(ClockName, &Record),
) -> Result<Option<String>, CliError> {
    Ok(cut(&records::read(path, by_name(take)).map_err(failed)?))
}

/// Gives `take` the clock of a comparison.
fn by_name(mut take: impl FnMut(ClockName, &Record)) -> impl FnMut(&Record) -> Result<(), String> {
    move |record| {
        let clock = ClockName::named(&record.clock)
            .ok_or_else(|| format!("is of an unknown clock: {:?}", record.clock))?;
        take(clock, record);
        Ok(())
    }
}

fn cut(joined: &Joined) -> Option<String> {
    let (file, cut, bad) = (joined.path.display(), joined.cut_bytes, joined.bad);
    let cut = (cut > 0).then(|| format!("its last line is incomplete: {cut} bytes left out"));
    let bad = (bad.count > 0).then(|| {
        let (count, first) = (bad.count, bad.first);
        let lines =
            if count == 1 { "line is not a comparison" } else { "lines are not comparisons" };
        format!("{count} {lines} (the first is line {first}), left out")
    });
    let parts: Vec<String> = bad.into_iter().chain(cut).collect();
    (!parts.is_empty()).then(|| format!("{file}: {}", parts.join("; ")))
}

/// An error of a file, with its remedy.
pub(super) fn failed(error: Error) -> CliError {
    let remedy = match &error {
        Error::Name(_) => {
            "use a name that ends in .csv, .jsonl or .parquet, or a folder's name that ends in /"
                .into()
        }
        Error::OtherRows(_) => {
            "pass --records with another folder, for `parachron drift` alone".into()
        }
        Error::Exists(_) => {
            "use --resume instead of --records to continue it, or another name".into()
        }
        Error::Unfinished(path, _) => {
            let path = path.display();
            format!("continue it with `--resume {path}`; add `--duration 0s` to convert it only")
        }
        Error::InUse(_) => "use another name with --records, or wait until that run is over".into(),
        Error::Damaged(_, damage) => remedy_of(damage).into(),
        Error::Refused(..) => {
            "use the version of Parachron that wrote it, or give --records a new file".into()
        }
        Error::Read(..) => "name a readable file that an earlier run's --records wrote".into(),
        Error::Write(..) => {
            "make room on the disk and check the write permission, then continue with --resume: \
             the lines written so far are kept"
                .into()
        }
        _ => "use a file whose name ends in .jsonl".into(),
    };
    CliError::Failed { cause: error.to_string(), remedy }
}

fn remedy_of(damage: &Damage) -> &'static str {
    match damage {
        Damage::NoRecords { .. } => "name a file that an earlier run's --records wrote",
        Damage::OtherVersion { .. } => {
            "use the Parachron that wrote it, or a new file with --records"
        }
        Damage::Line { .. } => "remove that line, or use a new file with --records",
        Damage::CutShort { .. } | Damage::Changed { .. } | Damage::Inside { .. } => {
            "use an intact copy of it, or a new file with --records"
        }
    }
}
