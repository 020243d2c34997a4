//! Answers on standard output, as they come.

use std::io::{self, BufWriter, StdoutLock, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::{self, StructMode, writer};

use crate::arguments::Form;
use crate::failure::Failure;

type Out = BufWriter<StdoutLock<'static>>;

/// Writes an answer.
pub(crate) enum Writer {
    Csv(csv::Writer<Out>),
    Json(json::ArrayWriter<Out>),
    Rows(writer::LineDelimitedWriter<Out>),
}

impl Writer {
    /// Begins one with these columns.
    pub(crate) fn new(form: Form, schema: &SchemaRef) -> Result<Self, Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let mut writer = match form {
            Form::Csv => Self::Csv(csv::Writer::new(out)),
            Form::Json => {
                let json = json::WriterBuilder::new().with_explicit_nulls(true);
                Self::Json(json.build(out))
            }
            Form::Rows => {
                let names: Vec<String> =
                    schema.fields().iter().map(|field| quoted(field.name())).collect();
                let line = format!("[{}]\n", names.join(","));
                out.write_all(line.as_bytes()).map_err(|why| Failure::output(&why))?;
                let lists = json::WriterBuilder::new().with_struct_mode(StructMode::ListOnly);
                Self::Rows(lists.build(out))
            }
        };
        // So that a CSV without a row has its heading.
        writer.write(&RecordBatch::new_empty(schema.clone()))?;
        Ok(writer)
    }

    /// Some rows.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), Failure> {
        let written = match self {
            Self::Csv(writer) => writer.write(rows),
            Self::Json(writer) => writer.write(rows),
            Self::Rows(writer) => writer.write(rows),
        };
        written.map_err(failed)
    }

    /// Ends it.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let mut out = match self {
            Self::Csv(writer) => writer.into_inner(),
            Self::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                writer.into_inner()
            }
            Self::Rows(mut writer) => {
                writer.finish().map_err(failed)?;
                writer.into_inner()
            }
        };
        out.flush().map_err(|why| Failure::output(&why))
    }
}

/// A name as JSON: columns may be called anything by a question.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text + "\""
}

fn failed(why: ArrowError) -> Failure {
    match why {
        ArrowError::IoError(_, why) => Failure::output(&why),
        why => Failure::new(
            format!("an answer cannot be written so: {why}"),
            "another --format, or `cast` in the question",
        ),
    }
}

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    io::stdout().lock().write_all(text.as_bytes()).map_err(|why| Failure::output(&why))
}
