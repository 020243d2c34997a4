//! Comparisons as lines, JSON or CSV, after a line with the version.
//!
//! A line is whole when its end is there. A part of a last line, which a full
//! disk or a crash leaves, is not read.

use std::io::{BufRead, Read};

use crate::damage::{Damage, beginning};
use crate::record::{NAMES, Record, TIMES};

/// The first line of a CSV file.
const CSV_MARK: &str = "# parachron drift 1";

/// The first line of a JSON file.
const JSON_MARK: &str = r#"{"parachron_drift":1}"#;

/// How a mark of any version begins.
const MARKS: [&str; 2] = ["# parachron drift ", "{\"parachron_drift\":"];

/// Our lines have some hundred bytes; a file without ends of lines is not ours.
const LONGEST_LINE: u64 = 1 << 16;

/// The forms that lines have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineForm {
    /// Fields between commas.
    Csv,
    /// A JSON object a line.
    Json,
}

impl LineForm {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Csv, Self::Json];

    /// What a file begins with.
    pub fn opening(self) -> String {
        match self {
            Self::Csv => format!("{CSV_MARK}\n{}\n", heading()),
            Self::Json => format!("{JSON_MARK}\n"),
        }
    }

    /// A comparison's line, with its end; none where a name would break it.
    pub fn line(self, record: &Record) -> Option<String> {
        let line = match self {
            Self::Csv => csv(record)?,
            Self::Json => serde_json::to_string(record).ok()?,
        };
        Some(line + "\n")
    }

    fn record(self, line: &str) -> Option<Record> {
        match self {
            Self::Csv => of_csv(line),
            Self::Json => serde_json::from_str(line).ok(),
        }
    }
}

fn heading() -> String {
    NAMES.into_iter().chain(TIMES).collect::<Vec<_>>().join(",")
}

fn csv(record: &Record) -> Option<String> {
    let unfit = |name: &str| name.contains(|c: char| c == ',' || c == '"' || c.is_control());
    if record.names().into_iter().any(unfit) {
        return None;
    }
    let times = record.times_ns().map(|ns| ns.to_string());
    Some(format!("{},{}", record.names().join(","), times.join(",")))
}

fn of_csv(line: &str) -> Option<Record> {
    let fields: Vec<&str> = line.split(',').collect();
    let [boot, reference, clock, outside, times @ ..] = &fields[..] else { return None };
    let times: Vec<u64> = times.iter().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let record = Record::of_columns([boot, reference, clock, outside], times.try_into().ok()?)?;
    // Numbers have more than one form, and only one of them is ours.
    (csv(&record)? == line).then_some(record)
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeLines {
    /// The form of the lines.
    pub form: LineForm,
    /// Bytes up to the end of the last whole line.
    pub bytes: u64,
    /// Bytes after it, of a line that was cut.
    pub cut_bytes: u64,
    /// Whole lines that are no comparisons, and are left out.
    pub bad: BadLines,
}

/// Lines that are no comparisons: zeros, for the most part, where the power
/// failed before the system had written them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BadLines {
    /// How many.
    pub count: u64,
    /// The number of the first, from 1 on; 0 where there is none.
    pub first: u64,
}

/// More bad lines than this are no accident.
const MOST_BAD: u64 = 10;

/// Why nothing more was read.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The system cannot read it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no file of comparisons.
    #[error(transparent)]
    Damage(#[from] Damage),
}

/// Reads all comparisons of a file, one by one.
///
/// # Errors
/// It is no file of comparisons: most of its lines, or more than a few, are none.
pub fn read(mut from: impl BufRead, mut take: impl FnMut(Record)) -> Result<WholeLines, TextError> {
    let mut line = Vec::new();
    let (mut bytes, mut cut_bytes) = (0, 0);
    let mut next = |line: &mut Vec<u8>| -> std::io::Result<bool> {
        line.clear();
        let length = from.by_ref().take(LONGEST_LINE).read_until(b'\n', line)? as u64;
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        if is_whole {
            bytes += length
        } else {
            cut_bytes = length
        }
        Ok(is_whole)
    };
    let is_whole = next(&mut line)?;
    let form = form_of(&line)?;
    if !is_whole {
        return Err(no_records("more than the first line".into(), &line).into());
    }
    if form == LineForm::Csv {
        let is_whole = next(&mut line)?;
        if !is_whole || line != heading().as_bytes() {
            return Err(no_records(format!("{:?}", heading()), &line).into());
        }
    }
    let mut number = if form == LineForm::Csv { 2 } else { 1 };
    let (mut good, mut bad, mut first_bad) = (0, BadLines::default(), None);
    while next(&mut line)? {
        number += 1;
        match std::str::from_utf8(&line).ok().and_then(|line| form.record(line)) {
            Some(record) => {
                good += 1;
                take(record);
            }
            None => {
                bad.count += 1;
                first_bad.get_or_insert_with(|| (number, beginning(&line)));
            }
        }
        if bad.count > MOST_BAD {
            break;
        }
    }
    if let Some((number, found)) = first_bad {
        bad.first = number;
        if bad.count > MOST_BAD || bad.count >= good {
            return Err(Damage::Line { number, found }.into());
        }
    }
    if cut_bytes == LONGEST_LINE {
        return Err(Damage::Line { number: number + 1, found: beginning(&line) }.into());
    }
    Ok(WholeLines { form, bytes, cut_bytes, bad })
}

fn form_of(mark: &[u8]) -> Result<LineForm, Damage> {
    let expected = || format!("{CSV_MARK:?} or {JSON_MARK:?}");
    match std::str::from_utf8(mark) {
        Ok(CSV_MARK) => Ok(LineForm::Csv),
        Ok(JSON_MARK) => Ok(LineForm::Json),
        Ok(other) if MARKS.iter().any(|mark| other.starts_with(mark)) => {
            Err(Damage::OtherVersion { expected: expected(), found: beginning(mark) })
        }
        _ => Err(no_records(expected(), mark)),
    }
}

fn no_records(expected: String, found: &[u8]) -> Damage {
    Damage::NoRecords { expected, found: beginning(found) }
}

#[cfg(test)]
mod tests;
