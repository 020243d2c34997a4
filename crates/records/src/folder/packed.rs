//! Rows as a Parquet file. Day and host are not in it: engines take them from its path,
//! and refuse or confuse columns that are in both.

use std::io::Write;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::parquet::{io, properties, write_column};
use crate::row::Row;

/// The columns as Parquet names them.
fn schema<R: Row>() -> String {
    let texts = R::TEXTS.iter().map(|text| format!("OPTIONAL BYTE_ARRAY {} (STRING);", text.name));
    let numbers = R::NUMBERS.iter().map(|number| format!("OPTIONAL INT64 {};", number.name));
    let columns: String = texts.chain(numbers).collect();
    format!("message parachron_clock {{ REQUIRED INT64 unix_s; {columns} }}")
}

/// Writes them, row by row.
pub struct Writer<W: Write + Send, R> {
    file: SerializedFileWriter<W>,
    rows: Vec<R>,
}

impl<W: Write + Send, R: Row> Writer<W, R> {
    /// Starts a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(file: W) -> std::io::Result<Self> {
        let properties = properties("parachron", &["unix_s"]);
        let schema = Arc::new(parse_message_type(&schema::<R>()).map_err(io)?);
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(io)?;
        Ok(Self { file, rows: Vec::new() })
    }

    /// One more row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&mut self, row: R) -> std::io::Result<()> {
        self.rows.push(row);
        if self.rows.len() >= R::GROUP_ROWS { self.group().map_err(io) } else { Ok(()) }
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.file.next_row_group()?;
        let times = rows.iter().map(|row| Some(row.unix_s()));
        column::<Int64Type, W>(&mut group, times, true)?;
        for text in R::TEXTS {
            let of = |row: &R| (text.of)(row).as_deref().map(ByteArray::from);
            column::<ByteArrayType, W>(&mut group, rows.iter().map(of), false)?;
        }
        for number in R::NUMBERS {
            let of = |row: &R| *(number.of)(row);
            column::<Int64Type, W>(&mut group, rows.iter().map(of), false)?;
        }
        group.close().map(|_| ())
    }

    /// Writes the directory, and returns the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> std::io::Result<W> {
        if !self.rows.is_empty() {
            self.group().map_err(io)?;
        }
        self.file.into_inner().map_err(io)
    }
}

/// Writes a column; a value is none where the definition level is 0.
fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
    is_required: bool,
) -> Result<(), ParquetError> {
    let mut known = Vec::new();
    let levels: Vec<i16> = values
        .map(|value| {
            let level = i16::from(value.is_some());
            known.extend(value);
            level
        })
        .collect();
    write_column::<T, W>(group, &known, (!is_required).then_some(&levels[..]))
}
