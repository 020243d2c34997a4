//! Comparisons as a Parquet file, for analysis of many.
//!
//! Names are strings, times unsigned 64-bit integers of nanoseconds. After the
//! first magic number, in bytes that no reader uses, is a seal: the file's
//! length and checksum. Parquet's readers trust its directory; so each byte is
//! first verified to be as it was written.
//!
//! ```text
//! 0   "PAR1"
//! 4   "drift", version, two zeros
//! 12  u64: length of the file
//! 20  u32: CRC-32 of all that follows
//! 24  row groups, directory, "PAR1": parquet's
//! ```

use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::damage::{Damage, beginning};
use crate::record::{NAMES, Record, TIMES};

/// Rows of a group: about 2 MB in memory, 1 MB on disk.
const GROUP_ROWS: usize = 1 << 16;

/// Rows that are read at once.
const BATCH_ROWS: usize = 1 << 12;

const MAGIC: &[u8; 4] = b"PAR1";
const MARK: &[u8; 8] = b"drift\x01\0\0";
const SEAL_BYTES: usize = 24;

/// The seal of a file: its length and checksum as it was written.
struct Seal {
    length: u64,
    checksum: u32,
}

impl Seal {
    fn bytes(&self) -> [u8; SEAL_BYTES] {
        let mut bytes = [0; SEAL_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..12].copy_from_slice(MARK);
        bytes[12..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[20..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let expected = "\"PAR1\" and \"drift\" version 1".to_owned();
        let found = || beginning(bytes.get(..12).unwrap_or(bytes));
        let Some((begin, length, checksum)) = parts(bytes) else {
            let begin = [&MAGIC[..], MARK].concat();
            let is_ours = begin.starts_with(bytes) || bytes.starts_with(&begin);
            return Err(if is_ours && !bytes.is_empty() {
                inside(format!("it ends within its first {SEAL_BYTES} bytes"))
            } else {
                Damage::NoRecords { expected, found: found() }
            });
        };
        match begin {
            [b'P', b'A', b'R', b'1', b'd', b'r', b'i', b'f', b't', 1, 0, 0] => Ok(Self {
                length: u64::from_le_bytes(length),
                checksum: u32::from_le_bytes(checksum),
            }),
            [b'P', b'A', b'R', b'1', b'd', b'r', b'i', b'f', b't', ..] => {
                Err(Damage::OtherVersion { expected, found: found() })
            }
            _ => Err(Damage::NoRecords { expected, found: found() }),
        }
    }
}

/// The seal's three parts; none of fewer bytes.
fn parts(seal: &[u8]) -> Option<([u8; 12], [u8; 8], [u8; 4])> {
    let (begin, rest) = seal.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    Some((*begin, *length, *rest.first_chunk()?))
}

/// The columns: names, then times.
fn schema() -> Result<TypePtr, ParquetError> {
    let names = NAMES.map(|name| format!("REQUIRED BYTE_ARRAY {name} (STRING);"));
    let times = TIMES.map(|name| format!("REQUIRED INT64 {name} (INTEGER(64,false));"));
    let columns: String = names.into_iter().chain(times).collect();
    Ok(Arc::new(parse_message_type(&format!("message parachron_drift {{ {columns} }}"))?))
}

/// The properties of a file with these columns of times, whose consecutive values differ little.
pub(crate) fn properties(program: &str, times: &[&str]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("{program} {}", env!("CARGO_PKG_VERSION")))
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for time in times {
        let column = ColumnPath::from(*time);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Writes a Parquet file, row by row.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<Record>,
}

impl<W: Read + Write + Seek + Send> Writer<W> {
    /// Starts one in `file`, which is empty.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(file: W) -> Result<Self, std::io::Error> {
        let properties = Arc::new(properties("parachron drift", &TIMES));
        let mut file =
            SerializedFileWriter::new(file, schema().map_err(io)?, properties).map_err(io)?;
        // Room for the seal, after the magic number.
        file.write_all(&[0; SEAL_BYTES - MAGIC.len()])?;
        Ok(Self { file, rows: Vec::new() })
    }

    /// One more row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&mut self, record: Record) -> Result<(), std::io::Error> {
        self.rows.push(record);
        if self.rows.len() >= GROUP_ROWS { self.group().map_err(io) } else { Ok(()) }
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.file.next_row_group()?;
        for column in 0..NAMES.len() {
            let values: Vec<ByteArray> =
                rows.iter().map(|row| ByteArray::from(row.names()[column])).collect();
            write_column::<ByteArrayType, W>(&mut group, &values, None)?;
        }
        for column in 0..TIMES.len() {
            // Parquet's unsigned numbers are signed ones of the same bits.
            let values: Vec<i64> =
                rows.iter().map(|row| row.times_ns()[column].cast_signed()).collect();
            write_column::<Int64Type, W>(&mut group, &values, None)?;
        }
        group.close().map(|_| ())
    }

    /// Writes directory and seal, and returns the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<W, std::io::Error> {
        if !self.rows.is_empty() {
            self.group().map_err(io)?;
        }
        let mut file = self.file.into_inner().map_err(io)?;
        let length = file.stream_position()?;
        file.seek(SeekFrom::Start(SEAL_BYTES as u64))?;
        let checksum = checksum(&mut file)?;
        file.rewind()?;
        file.write_all(&Seal { length, checksum }.bytes())?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}

/// Writes the next column; its `levels` where values may be missing.
pub(crate) fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("too few columns".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// The system's error, where it is one.
pub(crate) fn io(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => std::io::Error::other(cause),
        },
        other => std::io::Error::other(other),
    }
}

/// CRC-32 of the rest.
fn checksum(mut from: impl Read) -> std::io::Result<u32> {
    let mut checksum = crc32fast::Hasher::new();
    let mut part = vec![0; 1 << 16];
    loop {
        match from.read(&mut part)? {
            0 => return Ok(checksum.finalize()),
            length => checksum.update(&part[..length]),
        }
    }
}

/// Reads all comparisons of a file, one by one.
///
/// # Errors
/// It is not a file of ours, or not as it was written.
pub fn read<R: ChunkReader + 'static>(file: R, take: impl FnMut(Record)) -> Result<(), Damage> {
    let mut seal = Vec::new();
    let mut all = file.get_read(0).map_err(inside)?;
    all.by_ref().take(SEAL_BYTES as u64).read_to_end(&mut seal).map_err(inside)?;
    let seal = Seal::parse(&seal)?;
    if seal.length != file.len() {
        return Err(Damage::CutShort { expected: seal.length, found: file.len() });
    }
    let found = checksum(all).map_err(inside)?;
    if seal.checksum != found {
        return Err(Damage::Changed { expected: seal.checksum, found });
    }
    // With a right seal only a forged file is wrong inside; the reader may then
    // panic (fuzzed: `bit_util.rs` of parquet 60.1), and the comparisons that
    // `take` was given do not count.
    let rows = catch_unwind(AssertUnwindSafe(|| rows(file, take)));
    rows.unwrap_or_else(|_| Err(inside("its reader panicked")))
}

fn rows<R: ChunkReader + 'static>(file: R, mut take: impl FnMut(Record)) -> Result<(), Damage> {
    let file = SerializedFileReader::new(file).map_err(inside)?;
    let columns = schema().map_err(inside)?;
    if file.metadata().file_metadata().schema() != &*columns {
        return Err(inside("it has other columns"));
    }
    for index in 0..file.num_row_groups() {
        group(&*file.get_row_group(index).map_err(inside)?, &mut take)?;
    }
    Ok(())
}

fn group(group: &dyn RowGroupReader, take: &mut impl FnMut(Record)) -> Result<(), Damage> {
    let column = |index: usize| group.get_column_reader(index).map_err(inside);
    let mut names = Vec::new();
    for index in 0..NAMES.len() {
        names.push(get_typed_column_reader::<ByteArrayType>(column(index)?));
    }
    let mut times = Vec::new();
    for index in 0..TIMES.len() {
        times.push(get_typed_column_reader::<Int64Type>(column(NAMES.len() + index)?));
    }
    let mut left = usize::try_from(group.metadata().num_rows()).map_err(inside)?;
    while left > 0 {
        let rows = left.min(BATCH_ROWS);
        let mut texts: [Vec<ByteArray>; 4] = Default::default();
        for (column, texts) in names.iter_mut().zip(&mut texts) {
            column.read_records(rows, None, None, texts).map_err(inside)?;
        }
        let mut numbers: [Vec<i64>; 4] = Default::default();
        for (column, numbers) in times.iter_mut().zip(&mut numbers) {
            column.read_records(rows, None, None, numbers).map_err(inside)?;
        }
        for row in 0..rows {
            take(row_of(&texts, &numbers, row).ok_or_else(|| inside("a row is not a comparison"))?);
        }
        left -= rows;
    }
    Ok(())
}

fn row_of(texts: &[Vec<ByteArray>; 4], numbers: &[Vec<i64>; 4], row: usize) -> Option<Record> {
    let mut names = [""; 4];
    for (name, column) in names.iter_mut().zip(texts) {
        *name = column.get(row)?.as_utf8().ok()?;
    }
    let mut times = [0; 4];
    for (time, column) in times.iter_mut().zip(numbers) {
        *time = column.get(row)?.cast_unsigned();
    }
    Record::of_columns(names, times)
}

fn inside(what: impl ToString) -> Damage {
    Damage::Inside { what: what.to_string() }
}

#[cfg(test)]
mod tests;
