//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::failure::Failure;
use crate::questions::{self, SHIPPED};

/// What is to be done.
pub(crate) enum Task {
    /// Nothing but that.
    Print(String),
    /// A question.
    Ask(Question),
}

/// A question, and how it is answered.
pub(crate) struct Question {
    /// In SQL.
    pub(crate) sql: String,
    /// The folder of the records.
    pub(crate) records: PathBuf,
    /// How the answer is written.
    pub(crate) form: Form,
    /// What the program may take, bytes.
    pub(crate) memory: usize,
}

/// How an answer is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A heading, and a row a line.
    Csv,
    /// An array of objects.
    Json,
    /// A line of names, and a line a row, each an array: for `parachron`, which makes a
    /// table of it.
    Rows,
}

/// What 10^8 rows take is far less; what a program may take that nobody watches, MB.
const MEMORY_MB: usize = 2048;
/// The engine itself takes some hundred.
const LEAST_MB: usize = 256;

fn help() -> String {
    let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    format!(
        "Usage: parachron-query NAME|SQL --records DIR [--format csv|json|rows] [--memory MB]\n\n\
         Answers a question about the records of parachrond, which are the table `clocks`.\n\
         `parachron fleet query` shows the answer as a table.\n\n\
         Names: {}.\n\n\
         --records DIR  a folder with date=.../host=.../part-*.parquet, or merged days\n\
         --format FORM  csv, json, or rows: a JSON array a line, of names first; default csv\n\
         --memory MB    what may be taken, {LEAST_MB} or more; default {MEMORY_MB}\n",
        names.join(", ")
    )
}

pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Task, Failure> {
    read(words).map_err(|why| Failure::new(why, "parachron-query --help"))?
}

fn read(words: impl Iterator<Item = OsString>) -> Result<Result<Task, Failure>, lexopt::Error> {
    let (mut question, mut records, mut form, mut memory_mb) = (None, None, Form::Csv, MEMORY_MB);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(word) = parser.next()? {
        match word {
            Long("help") | Short('h') => return Ok(Ok(Task::Print(help()))),
            Long("version") | Short('V') => {
                let version = concat!("parachron-query ", env!("CARGO_PKG_VERSION"), "\n");
                return Ok(Ok(Task::Print(version.to_owned())));
            }
            Long("records") => records = Some(PathBuf::from(parser.value()?)),
            Long("format") => {
                form = match parser.value()?.to_str() {
                    Some("csv") => Form::Csv,
                    Some("json") => Form::Json,
                    Some("rows") => Form::Rows,
                    _ => return Err("--format is csv, json or rows".into()),
                };
            }
            Long("memory") => {
                memory_mb = parser.value()?.parse()?;
                if memory_mb < LEAST_MB {
                    return Err(format!("--memory is {LEAST_MB} or more").into());
                }
            }
            Value(word) if question.is_none() => question = Some(word.string()?),
            _ => return Err(word.unexpected()),
        }
    }
    let question = question.ok_or("the question is missing")?;
    let records = records.ok_or("--records DIR is missing")?;
    let memory = memory_mb.saturating_mul(1_000_000);
    Ok(questions::sql(&question).map(|sql| Task::Ask(Question { sql, records, form, memory })))
}
