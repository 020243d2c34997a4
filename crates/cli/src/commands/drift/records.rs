//! Comparisons on disk, as they are made: a run that is killed leaves all of
//! them, and a later one goes on from there.
//!
//! A line each, JSON or CSV by the file's name, after a line that says the
//! version. Each comparison is written by one call, so that the file ends in
//! a whole line; where a full disk or a lost machine cut one, it is left out.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use instruments::drift::{Nesting, Reading, Span};
use serde::{Deserialize, Serialize};

use super::clocks::ClockName;
use crate::error::CliError;

/// The first line of a CSV file.
const CSV_MARK: &str = "# parachron drift 1";

/// The second one.
const CSV_HEADING: &str = "boot,reference,clock,outside,clock_before_ns,clock_after_ns,\
                           reference_before_ns,reference_after_ns";

/// The first line of a JSON file.
const JSON_MARK: &str = r#"{"parachron_drift":1}"#;

/// A day of ten clocks each second is 100 MB.
const LIMIT_BYTES: u64 = 4 << 30;

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The kernel's name of this boot: clocks that count from it are not to
    /// be joined across two.
    pub(super) boot: String,
    pub(super) reference: String,
    #[serde(with = "clock_name")]
    pub(super) clock: ClockName,
    outside: Outside,
    clock_before_ns: u64,
    clock_after_ns: u64,
    reference_before_ns: u64,
    reference_after_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outside {
    Clock,
    Reference,
}

mod clock_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::*;

    pub(super) fn serialize<S: Serializer>(name: &ClockName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&name.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ClockName, D::Error> {
        let name = String::deserialize(from)?;
        ClockName::from_str(&name, false).map_err(D::Error::custom)
    }
}

impl Record {
    pub(super) fn new(boot: &str, reference: &str, clock: ClockName, reading: Reading) -> Self {
        Self {
            boot: boot.to_owned(),
            reference: reference.to_owned(),
            clock,
            outside: match reading.nesting {
                Nesting::ClockOutside => Outside::Clock,
                Nesting::ReferenceOutside => Outside::Reference,
            },
            clock_before_ns: reading.clock.before,
            clock_after_ns: reading.clock.after,
            reference_before_ns: reading.reference.before,
            reference_after_ns: reading.reference.after,
        }
    }

    pub(super) fn reading(&self) -> Reading {
        Reading {
            clock: Span { before: self.clock_before_ns, after: self.clock_after_ns },
            reference: Span { before: self.reference_before_ns, after: self.reference_after_ns },
            nesting: match self.outside {
                Outside::Clock => Nesting::ClockOutside,
                Outside::Reference => Nesting::ReferenceOutside,
            },
        }
    }

    fn csv(&self) -> String {
        let outside = match self.outside {
            Outside::Clock => "clock",
            Outside::Reference => "reference",
        };
        let numbers = [
            self.clock_before_ns,
            self.clock_after_ns,
            self.reference_before_ns,
            self.reference_after_ns,
        ];
        let numbers = numbers.map(|number| number.to_string()).join(",");
        format!("{},{},{},{outside},{numbers}", self.boot, self.reference, self.clock.name())
    }

    fn from_csv(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [boot, reference, clock, outside, numbers @ ..] = &fields[..] else { return None };
        let numbers: Vec<u64> =
            numbers.iter().map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let [clock_before_ns, clock_after_ns, reference_before_ns, reference_after_ns] =
            numbers[..]
        else {
            return None;
        };
        Some(Self {
            boot: (*boot).to_owned(),
            reference: (*reference).to_owned(),
            clock: ClockName::from_str(clock, false).ok()?,
            outside: match *outside {
                "clock" => Outside::Clock,
                "reference" => Outside::Reference,
                _ => return None,
            },
            clock_before_ns,
            clock_after_ns,
            reference_before_ns,
            reference_after_ns,
        })
    }
}

/// The forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Csv,
    Json,
}

impl Form {
    fn of_name(path: &Path) -> Result<Self, CliError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "ndjson" | "json") => Ok(Self::Json),
            _ => Err(CliError::Failed {
                cause: format!("cannot tell the form of {} by its name", path.display()),
                remedy: "a name that ends in .csv or .jsonl".into(),
            }),
        }
    }

    fn opening(self) -> String {
        match self {
            Self::Csv => format!("{CSV_MARK}\n{CSV_HEADING}\n"),
            Self::Json => format!("{JSON_MARK}\n"),
        }
    }

    fn line(self, record: &Record) -> String {
        match self {
            Self::Csv => record.csv() + "\n",
            // A struct of strings and numbers always has a JSON form.
            Self::Json => serde_json::to_string(record).unwrap_or_default() + "\n",
        }
    }

    fn record(self, line: &str) -> Option<Record> {
        match self {
            Self::Csv => Record::from_csv(line),
            Self::Json => serde_json::from_str(line).ok(),
        }
    }
}

/// What an earlier run left.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) records: Vec<Record>,
    /// What a person should know about it.
    pub(super) note: Option<String>,
}

/// Writes comparisons down.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    file: File,
    form: Form,
}

impl Recorder {
    /// Begins a new file; one that is there is not overwritten.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let form = Form::of_name(path)?;
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => CliError::Failed {
                cause: format!("{} is there already", path.display()),
                remedy: "--resume instead of --records to go on in it, or another name".into(),
            },
            _ => CliError::Write { path: path.into(), error },
        })?;
        let mut recorder = Self { path: path.into(), file, form };
        recorder.put(&form.opening())?;
        Ok(recorder)
    }

    /// Reads what an earlier run left in `path`, and goes on in it.
    pub(super) fn resume(path: &Path) -> Result<(Self, Joined), CliError> {
        let unreadable = |error: std::io::Error| CliError::Failed {
            cause: format!("cannot read {}: {error}", path.display()),
            remedy: "the file that an earlier run's --records wrote".into(),
        };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(unreadable)?;
        let mut text = String::new();
        (&file).take(LIMIT_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let (form, records) = parse(path, &text[..whole])?;
        let cut = text.len() - whole;
        let note = (cut > 0).then(|| {
            format!("{}: its last line is not whole; {cut} bytes left out", path.display())
        });
        // What comes next begins a line of its own.
        file.set_len(whole as u64).map_err(unreadable)?;
        file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        Ok((Self { path: path.into(), file, form }, Joined { records, note }))
    }

    /// Writes the comparisons of one answer down, at once.
    pub(super) fn write(&mut self, records: &[Record]) -> Result<(), CliError> {
        let lines: String = records.iter().map(|record| self.form.line(record)).collect();
        self.put(&lines)
    }

    fn put(&mut self, text: &str) -> Result<(), CliError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| CliError::Write { path: self.path.clone(), error })
    }
}

fn parse(path: &Path, text: &str) -> Result<(Form, Vec<Record>), CliError> {
    let mut lines = text.lines().enumerate();
    let mark = lines.next().map(|(_, line)| line).unwrap_or_default();
    let form = match mark {
        CSV_MARK => Form::Csv,
        JSON_MARK => Form::Json,
        _ => return Err(no_records(path, mark)),
    };
    if form == Form::Csv {
        let heading = lines.next().map(|(_, line)| line).unwrap_or_default();
        if heading != CSV_HEADING {
            return Err(no_records(path, heading));
        }
    }
    let mut records = Vec::new();
    for (number, line) in lines {
        let record = form.record(line).ok_or_else(|| CliError::Failed {
            cause: format!(
                "{}: line {} is no comparison: {:?}",
                path.display(),
                number + 1,
                shortened(line)
            ),
            remedy: "without that line, or a new file with --records".into(),
        })?;
        records.push(record);
    }
    Ok((form, records))
}

fn no_records(path: &Path, found: &str) -> CliError {
    let other_version =
        found.starts_with("# parachron drift ") || found.contains("parachron_drift");
    let what = if other_version { "of another version" } else { "no record of parachron drift" };
    CliError::Failed {
        cause: format!(
            "{} is {what}: expected {CSV_MARK:?} or {JSON_MARK:?}, found {:?}",
            path.display(),
            shortened(found)
        ),
        remedy: if other_version {
            "the Parachron that wrote it, or a new file with --records".into()
        } else {
            "the file that an earlier run's --records wrote".into()
        },
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
